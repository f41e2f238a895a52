"""Findings about a new machine: what the sessions of `busbw doctor` measured, and what is odd.

A pure function of their results, so that who reads the file elsewhere is told the same.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.hardware.chips import chip_of
from busbw.judge.levels import history_of
from busbw.judge.policy import POLICIES
from busbw.judge.rule import CaseTimes, limits
from busbw.judge.validity import memory_text
from busbw.model.case import Case
from busbw.model.launch import Run
from busbw.model.limits import NotNegative
from busbw.model.verdict import Verdict
from busbw.model.words import (
    Clock,
    Device,
    FoundBy,
    Outcome,
    bytes_text,
    payload_text,
    rate_text,
    ratio_text,
    seconds_text,
)
from busbw.page.content import Facts
from busbw.page.page import alike, session_parts
from busbw.report.answer import answer_lines
from busbw.report.reading import Session
from busbw.report.results import Results
from busbw.report.session import session_tables
from busbw.report.table import Column, Table, TextLine, percent_text, rows_of
from busbw.report.verdicts import legend
from busbw.stats.launches import launch_time_s, relative_mad

from .recordings import Recording, texts

DOCUMENT = "busbw doctor"

# The checks, by name: what each asks, and the options of its session; *: all that there are.
CHECKS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "collectives": ("every collective, proved", {"collectives": "*", "payloads": "1M"}),
    "dtypes": (
        "every dtype and reduce op, by exact values",
        {"dtypes": "*", "reduce_ops": "*", "payloads": "1M"},
    ),
    "placement": ("in place and out of place", {"placement": "in_place,out_of_place"}),
    "device": ("the device's clock, by a profiler recording", {"clock": "device"}),
    "host": ("the host's clock, by the slope of a chain", {"clock": "host"}),
    "dispatch": ("a single call", {"clock": "dispatch"}),
    "curve": ("bandwidth by payload", {"payloads": "1K:256M:4", "launches": "3"}),
    "memory": ("where memory ends", {"payloads": "512M:64G"}),
    "noise": ("20 launches of three payloads", {"payloads": "1K,1M,64M", "launches": "20"}),
}

# What is odd: clocks that differ by more than this; less of what links allow, or of what was
# published; memory that ends where this share of a rank's is predicted, or whose peak on a host
# differs more from what was predicted; launches that are further apart.
_CLOCKS_DIFFER = 0.05
_OF_CEILING, _OF_PUBLISHED = 0.5, 0.7
_OF_MEMORY, _PEAK_DIFFERS = 0.8, 0.25
# What is not said of where time goes.
_LITTLE = 0.01
_APART = {Device.CPU: 0.3, Device.GPU: 0.04, Device.TPU: 0.04}

_CLOCKS = tuple(clock.value for clock in Clock)

Sessions = Mapping[str, Session]


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """One check: its name, how long it took, and its results, or the `problem` with it."""

    name: str
    seconds: NotNegative
    problem: str = ""
    results: Results | None = None
    recordings: tuple[Recording, ...] = ()

    def validate(self) -> None:
        if self.results is None and not self.problem:
            raise ValueError("results: expected some where there is no problem")


def facts(sessions: Sessions) -> list[str]:
    """What the probes say, and what is known of the links of what they found."""
    if not sessions:
        return []
    first = next(iter(sessions.values()))
    found = [one.facts for one in session_parts(first) if isinstance(one, Facts)]
    said = [f"{name}: {text}" for one in found for name, text in one.items() if name != "file"]
    return [*said, f"links: {_links(first)}"]


def _links(session: Session) -> str:
    """By the table of chips: no framework says what joins its devices."""
    kind = session.environment.key.device_kind
    chip = chip_of(kind)
    each = (chip.link_bytes_per_s or chip.doubted_bytes_per_s) if chip else None
    if session.environment.device is Device.CPU:
        return "none, ranks on a CPU share its memory"
    if chip is None or each is None:
        return f"those of {kind} are not known"
    one, sure = rate_text(each / chip.links), f"{chip.confidence.value} confidence"
    return f"{chip.links} a chip, {one} each way ({chip.fabric.value}; {sure}: {chip.source})"


def tables(checked: Sequence[Checked], sessions: Sessions) -> list[Table]:
    shown = [_overview(checked, sessions), _clocks(sessions), _noise(sessions)]
    for one in filter(None, [sessions.get("curve")]):
        shown += session_tables(one.verdicts, verbose=True)
    return [one for one in shown if one.rows]


def _overview(checked: Sequence[Checked], sessions: Sessions) -> Table:
    columns = (
        Column("what", "check", left=True, fits=True),
        Column("seconds", "took", unit="s", text="{:.0f}".format, width=5),
        Column("cases", "cases", left=True, gap=2),
    )
    rows = (
        (CHECKS[one.name][0], one.seconds, one.problem or _outcomes(sessions[one.name].verdicts))
        for one in checked
    )
    return _table("what was checked", columns, rows)


def _table(title: str, columns: tuple[Column, ...], rows: Iterator[tuple[object, ...]]) -> Table:
    ids = [one.id for one in columns]
    found = rows_of(dict(zip(ids, row, strict=True)) for row in rows)
    return Table(title=TextLine(title, {"bold": True}), columns=columns, rows=found, missing="-")


def _outcomes(verdicts: Sequence[Verdict]) -> str:
    """Nothing is compared here, so that NO_BASELINE is what was measured."""
    counts = Counter(one.outcome for one in verdicts)
    words = {Outcome.NO_BASELINE: "measured"}
    return ", ".join(f"{n} {words.get(one, one.value)}" for one, n in counts.most_common())


def _clocks(sessions: Sessions) -> Table:
    columns = (Column(name, name, text=seconds_text, width=10) for name in _CLOCKS)
    found = _by_clock(sessions).items()
    rows = ((case, *(times_s.get(name) for name in _CLOCKS)) for case, times_s in found)
    case = Column("case", "case", left=True, fits=True)
    return _table("the clocks, side by side", (case, *columns), rows)


def _by_clock(sessions: Sessions) -> dict[str, dict[str, float]]:
    """Seconds of each case by each clock."""
    found: dict[str, dict[str, float]] = {}
    for clock in _CLOCKS:
        for one in sessions[clock].verdicts if clock in sessions else ():
            if one.case is not None and one.now is not None:
                found.setdefault(one.case.name, {})[clock] = one.now.median_s
    return found


def _noise(sessions: Sessions) -> Table:
    columns = (
        Column("case", "noise of", left=True, fits=True),
        Column("launches", "launches", width=8),
        Column("least_s", "least", text=seconds_text, width=10),
        Column("greatest_s", "greatest", text=seconds_text, width=10),
        Column("launch", "a launch", unit="%", text=_percent, width=8),
        Column("session", "a session", unit="%", text=_percent, width=9),
        Column("limit", "limit", unit="x", text=ratio_text, width=6),
    )
    slower = _limits(sessions)
    rows = (
        (name, len(one), min(one), max(one), relative_mad(one), _of_sessions(one), slower.get(name))
        for name, one in _launches(sessions).items()
    )
    title = "standard deviations that a verdict has to expect, and its limit after such sessions"
    return _table(title, columns, rows)


def _percent(share: float) -> str:
    return f"{100 * share:.2g}"


def _launches(sessions: Sessions) -> dict[str, list[float]]:
    measured = sessions["noise"].measurements if "noise" in sessions else {}
    found = {spec.id: [launch_time_s(run) for run in one.runs] for spec, one in measured.items()}
    return {name: times_s for name, times_s in found.items() if len(times_s) > 1}


def _threes(times_s: Sequence[float]) -> list[Sequence[float]]:
    """Three launches after each other, as a session has them."""
    return [times_s[n : n + 3] for n in range(0, len(times_s) - 2, 3)]


def _limits(sessions: Sessions) -> dict[str, float]:
    """What a verdict would call slower, by case, had the sessions before been these threes."""
    measured = sessions["noise"].measurements if "noise" in sessions else {}
    cases = {spec.id: one.case for spec, one in measured.items()}
    if not measured:
        return {}
    policy = POLICIES[sessions["noise"].environment.device]
    nights: list[dict[Case, CaseTimes]] = []
    for name, times_s in _launches(sessions).items():
        for n, three in enumerate(_threes(times_s)):
            nights += [{}] if n == len(nights) else []
            nights[n][cases[name]] = CaseTimes.of(three, policy.rule)
    if not nights:
        return {}
    found = limits(history_of(nights, policy, measured=nights[-1]), nights[-1]).limits
    return {name: math.exp(found[case].slower) for name, case in cases.items() if case in found}


def _of_sessions(times_s: Sequence[float]) -> float | None:
    """Of medians of three launches after each other; None for fewer than two."""
    medians = list(map(statistics.median, _threes(times_s)))
    return statistics.stdev(medians) / statistics.fmean(medians) if len(medians) > 1 else None


def notes(checked: Sequence[Checked], sessions: Sessions) -> list[str]:
    """Where memory ends and time goes, what recordings hold, and what explains the tables."""
    curve = sessions["curve"].verdicts if "curve" in sessions else ()
    recorded = (text for one in checked for text, _ in texts(one.recordings))
    ends = (text for text, _ in _memory(sessions))
    return [*ends, *_spent(sessions), *recorded, *legend(curve, verbose=True)]


def findings(checked: Sequence[Checked], sessions: Sessions) -> list[str]:
    """What is not as expected, a sentence each; a CPU need not have every clock."""
    problems: dict[str, list[str]] = {}
    for one in checked:
        if one.problem and f" has no clock {one.name} on the CPU;" not in one.problem:
            problems.setdefault(one.problem, []).append(one.name)
    return [
        *(f"{', '.join(names)}: {problem}" for problem, names in problems.items()),
        *(f"{name}: {text}" for name, one in sessions.items() for text in _of_session(name, one)),
        *(f"clocks: {text}" for text in _clocks_differ(sessions)),
        *(text for one in filter(None, [sessions.get("curve")]) for text in _slow(one)),
        *(text for text, is_odd in _memory(sessions) if is_odd),
        *(text for one in checked for text, is_odd in texts(one.recordings) if is_odd),
        *(f"noise: {text}" for text in _far_apart(sessions)),
    ]


def _of_session(name: str, session: Session) -> Iterator[str]:
    """What failed or was left out, and what is noted at a case; memory may end in its check."""
    verdicts = session.verdicts
    if session.answer is not None and any(one.failed for one in verdicts):
        yield from (line.text for line in answer_lines(verdicts, session.answer)[:-1])
    odd = [Outcome.SKIPPED, *([] if name == "memory" else [Outcome.OUT_OF_MEMORY])]
    yield from alike([one for one in verdicts if one.outcome in odd and not one.failed])
    yield from (f"{one.spec.id}: {note}" for one in verdicts for note in one.notes)


def _clocks_differ(sessions: Sessions) -> Iterator[str]:
    for name, times_s in _by_clock(sessions).items():
        host_s, device_s = times_s.get(Clock.HOST.value), times_s.get(Clock.DEVICE.value)
        if host_s and device_s and abs(host_s / device_s - 1) > _CLOCKS_DIFFER:
            yield (
                f"{name} takes {seconds_text(host_s)} by the host, {seconds_text(device_s)} by "
                f"the device: {ratio_text(host_s / device_s)} x"
            )


def _slow(curve: Session) -> Iterator[str]:
    """The best of a curve is near what links allow, and each payload near what was published."""
    found = [one for one in curve.verdicts if one.case is not None and one.now is not None]
    for name, alike_ones in itertools.groupby(found, lambda one: one.case and one.case.group_name):
        best = max(alike_ones, key=lambda one: one.ceiling_share or 0.0)
        if best.ceiling is None and curve.environment.device is not Device.CPU:
            kind = curve.environment.key.device_kind
            yield f"links: what those of {kind} allow for {name} is not known, nor its shape"
        if best.ceiling is not None and (best.ceiling_share or 0.0) < _OF_CEILING:
            yield (
                f"links: {name} reaches {percent_text(best.ceiling_share or 0.0)} % of what they "
                f"allow ({best.ceiling.text}): one is absent or slow, or the shape is another"
            )
    for one in found:
        published = one.published.algbw_gb_per_s if one.published else None
        share = one.now.algbw_gb_per_s / published if one.now and published else 1.0
        if one.published and not _OF_PUBLISHED <= share <= 1 / _OF_PUBLISHED:
            yield (
                f"published: {one.spec.id} has {ratio_text(share)} x the algbw of "
                f"{one.published.source}"
            )


def _memory(sessions: Sessions) -> Iterator[tuple[str, bool]]:
    """Where it ends for each kind of case, and whether not where it was predicted."""
    session = sessions.get("memory")
    found = [one for one in session.verdicts if one.case is not None] if session else []
    for name, group in itertools.groupby(found, lambda one: one.case and one.case.group_name):
        if session is not None:
            text, is_odd = _end_of_memory(session, list(group))
            yield f"memory: {name}: {text}", is_odd


def _end_of_memory(session: Session, verdicts: Sequence[Verdict]) -> tuple[str, bool]:
    sizes = {one.spec.payload_bytes: one for one in verdicts if one.now is not None}
    not_fit = [one for one in verdicts if one.outcome is Outcome.OUT_OF_MEMORY and one.failure]
    first = min(not_fit, key=lambda one: one.spec.payload_bytes, default=None)
    fits = max(sizes, default=0)
    measured = session.measurements.get(sizes[fits].spec) if fits else None
    run = measured.runs[0] if measured and measured.runs else None
    peak, is_odd = _peak(run)
    text = f"{payload_text(fits) if fits else 'nothing'} fits{peak}"
    if first is None or first.failure is None:
        return f"{text}, the largest that was tried", is_odd
    size, chip = first.spec.payload_bytes, chip_of(session.environment.key.device_kind)
    text += f"; {payload_text(size)} does not: {memory_text(first.failure)}"
    is_odd |= not fits or fits > size
    if first.failure.found is FoundBy.PREDICTED:
        return text, is_odd
    # What goes in and what comes out, where nothing is predicted.
    needed = int(_predicted(run) / fits * size) if run and _predicted(run) else 2 * size
    room = chip.memory_bytes // chip.devices if chip else 0
    of_room = f" of the {bytes_text(room)} that a rank has" if room else ""
    text += f", predicted to need {bytes_text(needed)}{of_room}"
    ends_early = needed < _OF_MEMORY * room or session.environment.device is Device.CPU
    return text, is_odd or ends_early or needed * fits > room * size > 0


def _spent(sessions: Sessions) -> Iterator[str]:
    """What the time of a curve's workers went to, the longest first."""
    spent_s: dict[str, float] = {}
    for measured in sessions["curve"].measurements.values() if "curve" in sessions else ():
        for run in measured.runs:
            for name, phase_s in run.phases_s.items():
                spent_s[name] = spent_s.get(name, 0.0) + phase_s
    total_s = sum(spent_s.values())
    longest = sorted(spent_s, key=lambda name: -spent_s[name])
    shares = [
        f"{name.replace('_', ' ')} {percent_text(spent_s[name] / total_s)} %"
        for name in longest
        if spent_s[name] > _LITTLE * total_s
    ]
    if shares:
        yield f"time: {seconds_text(total_s)} of the curve's workers: {', '.join(shares)}"


def _predicted(run: Run) -> int:
    """Bytes of a host's process, else of one rank by the compiler; 0 for not known."""
    return run.predicted_memory_bytes or run.compiled_memory_bytes or 0


def _peak(run: Run | None) -> tuple[str, bool]:
    if not run or not run.peak_memory_bytes or not _predicted(run):
        return "", False
    ratio = run.peak_memory_bytes / _predicted(run)
    text = f" (peak {bytes_text(run.peak_memory_bytes)}, {ratio_text(ratio)} x the prediction)"
    return text, bool(run.predicted_memory_bytes) and abs(ratio - 1) > _PEAK_DIFFERS


def _far_apart(sessions: Sessions) -> Iterator[str]:
    for name, times_s in _launches(sessions).items():
        apart = max(times_s) / min(times_s) - 1
        if apart > _APART[sessions["noise"].environment.device]:
            yield (
                f"{name} takes {seconds_text(min(times_s))} to {seconds_text(max(times_s))} over "
                f"{len(times_s)} launches, {percent_text(apart)} % apart"
            )

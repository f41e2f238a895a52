"""One line per case, in the order of the grid; baselines before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw import metrics
from busbw.collectives import COLLECTIVES
from busbw.model import (
    Baseline,
    Case,
    Clock,
    Outcome,
    Reference,
    Summary,
    Verdict,
    payload_text,
    seconds_text,
)

_COLUMNS = "{:>8} {:>10} {:>10} {:>9} {:>9} {:>7} {:>10} {:>10} {:>6}  {}"
_HEAD = _COLUMNS.format(
    "payload",
    "best",
    "median",
    "algbw",
    "busbw",
    "spread",
    "per call",
    "baseline",
    "ratio",
    "outcome",
)
_UNITS = _COLUMNS.format("", "", "", "GB/s", "GB/s", "%", "", "", "", "").rstrip()

MARKUP: Mapping[Outcome, Mapping[str, bool]] = {
    Outcome.REGRESSED: {"red": True, "bold": True},
    Outcome.FAILED: {"red": True, "bold": True},
    Outcome.OUT_OF_MEMORY: {"yellow": True},
    Outcome.IMPROVED: {"cyan": True},
    Outcome.INCOMPARABLE: {"yellow": True},
    Outcome.NO_BASELINE: {},
    Outcome.CHANGED: {"red": True},
    Outcome.COMPILE_ERROR: {"red": True, "bold": True},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of text and how a terminal should mark it."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


def table(verdicts: Sequence[Verdict]) -> list[Line]:
    """The verdicts by framework, strategy and dtype, each group under a heading of its own."""
    lines: list[Line] = []
    group = ""
    for verdict in verdicts:
        name = _group(verdict)
        if name != group:
            lines += _source_lines(verdicts, group)
            lines += [Line(text=""), Line(text=name, markup={"bold": True}), Line(text=_HEAD)]
            lines.append(Line(text=_UNITS))
            group = name
        lines += _case_lines(verdict)
    return lines + _source_lines(verdicts, group)


def _source_lines(verdicts: Sequence[Verdict], group: str) -> list[Line]:
    """Where the published figures of a group come from, once."""
    sources = {v.reference.source for v in verdicts if v.reference and _group(v) == group}
    return [Line(text=f"published figures, by another method: {one}") for one in sorted(sources)]


def _group(verdict: Verdict) -> str:
    case = verdict.case
    if case is None:
        return f"{verdict.spec.framework} {verdict.spec.collective} {verdict.spec.dtype}"
    parts = [f"{case.framework} {case.collective} ({case.strategy})", f"{case.ranks} ranks"]
    if case.axes:
        parts[-1] += f", {len(case.groups)} groups of {case.group_size} along {case.axes}"
    parts.append(case.dtype if case.reduce_op == "none" else f"{case.reduce_op} of {case.dtype}")
    unusual = case.placement != COLLECTIVES[case.collective].placements[0]
    parts += [case.placement.replace("_", " ")] if unusual else []
    parts += [f"{case.clock.value} clock"] if case.clock is not Clock.HOST else []
    return ", ".join(parts)


def _case_lines(verdict: Verdict) -> list[Line]:
    numbers = _numbers(verdict.now) if verdict.now else ("",) * 6
    before = verdict.baseline
    text = _COLUMNS.format(
        payload_text(verdict.spec.payload_bytes),
        *numbers,
        seconds_text(before.median_s) if before else "",
        f"{verdict.ratio:.2f}" if verdict.ratio is not None else "",
        _outcome(verdict),
    )
    markup = dict(MARKUP.get(verdict.outcome, {}))
    if verdict.failed:
        markup = {"red": True, "bold": True}
    lines = [Line(text=text.rstrip(), markup=markup)]
    if verdict.outcome not in (Outcome.PASS, Outcome.NO_BASELINE):
        lines.append(Line(text=f"{'':<10}{verdict.text}", markup=markup))
    lines += [Line(text=f"{'':<10}{note}", markup={"yellow": True}) for note in verdict.notes]
    if verdict.reference is not None:
        lines.append(Line(text=f"{'':<10}{_reference_text(verdict.reference)}"))
    return lines


def _numbers(now: Summary) -> tuple[str, ...]:
    return (
        seconds_text(now.best_s),
        seconds_text(now.median_s),
        f"{now.algbw_gb_per_s:.4g}",
        f"{now.busbw_gb_per_s:.4g}",
        f"{100 * now.spread:.0f}",
        seconds_text(now.dispatch_s) if now.dispatch_s is not None else "",
    )


def _outcome(verdict: Verdict) -> str:
    word = verdict.outcome.value
    if verdict.provisional:
        word += " (provisional)"
    if verdict.expected:
        word += " (expected)"
    return word


def _reference_text(reference: Reference) -> str:
    figure = "out of memory" if reference.oom else f"algbw {reference.algbw_gb_per_s:.4g} GB/s"
    doubt = f" ({reference.doubt})" if reference.doubt else ""
    return f"published: {figure}{doubt}"


def measured_lines(found: Sequence[tuple[Case, Summary]], launches: int) -> list[str]:
    """What an interrupted session had measured by then; nothing of it is judged."""
    lines = []
    for case, now in found:
        done = f"{len(now.times_s)} of {launches} launches"
        rates = f"algbw {now.algbw_gb_per_s:.4g} GB/s, busbw {now.busbw_gb_per_s:.4g} GB/s"
        lines.append(f"{case.name:<48} {seconds_text(now.median_s):>10}  {rates}  ({done})")
    return lines or ["nothing was measured before the interrupt"]


def change_lines(
    changes: Sequence[tuple[str, Case, Baseline | None, Baseline | None]],
) -> list[str]:
    """Baselines before and after, by file; None: there was none, or there is none any more."""
    lines: list[str] = []
    file = ""
    for path, case, before, after in changes:
        if path != file:
            lines += ["", f"baselines written: {path}"]
            file = path
        label = f"{case.dtype} {payload_text(case.payload_bytes)}"
        lines.append(
            f"    {label:<16} {_baseline_text(case, before)} -> {_baseline_text(case, after)}"
        )
    return lines


def _baseline_text(case: Case, baseline: Baseline | None) -> str:
    if baseline is None:
        return "none"
    level_s, pinned_s = baseline.level_s, baseline.pinned_s
    if level_s is None or pinned_s is None:
        return "out of memory"
    rate = metrics.busbw_gb_per_s(case, level_s)
    counts = f"{len(baseline.times_s)} launches of {len(baseline.sessions)} sessions"
    pin = f"pinned {seconds_text(pinned_s)}"
    return f"{seconds_text(level_s)} ({rate:.4g} GB/s busbw, {counts}, {pin})"

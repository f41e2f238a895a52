"""The curves of sessions: the cells of one kind, and names that tell them from each other.

Also the charts of what is no bandwidth: times of steps and strategies, and programs' memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from busbw import metrics
from busbw.model.case import Case
from busbw.model.limits import moment_text
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural
from busbw.report.reading import CompiledSession, Session

from .chart import Axis, Chart, Mark, Position, Scale, Series, Style

PAYLOAD = Axis(name="payload", unit="bytes", scale=Scale.LOG2)
BUSBW = Axis(name="busbw", unit="GB/s", scale=Scale.LOG10)
# With more a reader cannot follow them.
MOST_CURVES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A verdict of a case; rates are busbw in GB/s, None where there is none."""

    case: Case
    verdict: Verdict

    @property
    def measured(self) -> float | None:
        return self.verdict.now.busbw_gb_per_s if self.verdict.now else None

    @property
    def baseline(self) -> float | None:
        return self.verdict.baseline.busbw_gb_per_s if self.verdict.baseline else None

    @property
    def ceiling(self) -> float | None:
        return self.verdict.ceiling.bytes_per_s / 1e9 if self.verdict.ceiling else None

    @property
    def published(self) -> float | None:
        figure = self.verdict.published and self.verdict.published.algbw_gb_per_s
        return figure * metrics.bus_factor(self.case) if figure else None


def cells_of(verdicts: Iterable[Verdict]) -> list[Cell]:
    return [Cell(case=one.case, verdict=one) for one in verdicts if one.case is not None]


def collectives_text(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    return (found[0] if len(found) == 1 else "collectives").replace("_", "-").capitalize()


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """The cells of one kind in one session, by payload."""

    session: Session
    cells: tuple[Cell, ...]

    @property
    def case(self) -> Case:
        """The smallest, whose kind is that of all."""
        return self.cells[0].case

    @property
    def framework(self) -> str:
        return self.case.framework


def bare_curves(session: Session) -> list[Curve]:
    """The curves of bare collectives, whose times give a bandwidth."""
    return [one for one in curves_of(session) if one.case.workload.is_bare]


def curves_of(session: Session) -> list[Curve]:
    found: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells_of(session.verdicts):
        case = cell.case
        place = (case.ranks, case.mesh, case.placement, case.protocol.clock)
        found.setdefault((case.group_name, *place), []).append(cell)
    return [
        Curve(
            session=session,
            cells=tuple(sorted(cells, key=lambda one: one.case.payload_bytes)),
        )
        for cells in found.values()
    ]


_Word = Callable[[Curve], str]
# What a curve's name may have. Of these what differs among all curves.
_DIFFER: Mapping[str, _Word] = {
    "workload": lambda one: one.case.workload.word.replace("_", " "),
    "collective": lambda one: one.case.collective.replace("_", "-"),
    "reduce_op": lambda one: one.case.reduce_op.replace("none", ""),
    "placement": lambda one: one.case.placement.replace("_", " "),
    "dtype": lambda one: one.case.dtype,
    "device": lambda one: one.session.environment.key.device_kind,
    "ranks": lambda one: f"{one.case.group_size} ranks",
    "mesh": lambda one: one.case.mesh,
    "axes": lambda one: one.case.axes and f"along {one.case.axes}",
    "clock": lambda one: f"{one.case.clock.value} clock",
    "processes": lambda one: plural(one.session.environment.key.processes, "process"),
    "host": lambda one: one.session.host and f"on {one.session.host}",
    "date": lambda one: f"{one.session.began:%Y-%m-%d}",
}
# And of these what differs among those whose names are still alike.
_TELL: Sequence[_Word] = (
    lambda one: moment_text(one.session.began),
    lambda one: one.session.environment.commit and f"at {one.session.environment.commit[:12]}",
    lambda one: PurePath(one.session.name).name,
    lambda one: one.session.name,
)
# What is said of all curves where it is the same for all.
_SHARED = ("device", "ranks", "mesh", "axes", "dtype", "clock", "host", "date")


def _version(one: Curve) -> str:
    return one.session.version(one.framework)


def names_of(curves: Sequence[Curve]) -> list[str]:
    """A name for each curve: framework and strategy, and in what it differs from others."""
    names = [f"{one.framework} {one.case.strategy}" for one in curves]
    for word in _DIFFER.values():
        names = _told(names, curves, word, [""] * len(curves))
    names = _told(names, curves, _version, [one.framework for one in curves])
    for word in _TELL:
        names = _told(names, curves, word, names)
    return [
        f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def _told(
    names: Sequence[str], curves: Sequence[Curve], word: _Word, among: Sequence[str]
) -> list[str]:
    """Names with the word of each curve, where words differ `among` those of one kind."""
    words: dict[str, set[str]] = {}
    for kind, one in zip(among, curves):
        words.setdefault(kind, set()).add(word(one))
    return [
        f"{name}, {word(one)}" if word(one) and len(words[kind]) > 1 else name
        for name, one, kind in zip(names, curves, among)
    ]


def shared_text(curves: Sequence[Curve]) -> str:
    """What is the same for all curves; usual values are left out."""
    found = [{_DIFFER[name](one) for one in curves} for name in _SHARED]
    for framework in dict.fromkeys(one.framework for one in curves):
        found.append({_version(one) for one in curves if one.framework == framework})
    return " · ".join(text for texts in found if len(texts) == 1 for text in texts if text)


_STEP_TIME = Axis(name="time of a step", unit="ms", scale=Scale.LOG10)
_STRATEGY = Axis(name="strategy", scale=Scale.CATEGORY)


def steps(session: Session) -> Chart | None:
    found = [
        one
        for one in curves_of(session)
        if not one.case.workload.is_bare and not one.case.workload.own_strategies
    ]
    series = [
        Series(name=name, group=name, points=points)
        for name, one in zip(names_of(found), found)
        if (points := tuple((cell.case.payload_bytes, ms) for cell, ms in _medians_ms(one.cells)))
    ]
    return _durations("Training steps", found, series[:MOST_CURVES], PAYLOAD)


def strategies(session: Session) -> Chart | None:
    found = [one for one in curves_of(session) if one.case.workload.own_strategies]
    by_framework: dict[str, list[tuple[Position, float]]] = {}
    for curve in found:
        for cell in curve.cells:
            for time_s in cell.verdict.now.times_s if cell.verdict.now else ():
                of_one = by_framework.setdefault(curve.framework, [])
                of_one.append((cell.case.strategy, 1e3 * time_s))
    series = [
        Series(name=name, points=tuple(points), style=Style.DOTS)
        for name, points in by_framework.items()
    ]
    return _durations("Training under strategies", found, series, _STRATEGY)


def _medians_ms(cells: Sequence[Cell]) -> list[tuple[Cell, float]]:
    return [(one, 1e3 * one.verdict.now.median_s) for one in cells if one.verdict.now]


def _durations(
    title: str, curves: Sequence[Curve], series: Sequence[Series], x: Axis
) -> Chart | None:
    if not series:
        return None
    subtitle = shared_text(curves)
    return Chart(title=title, subtitle=subtitle, x=x, y=_STEP_TIME, series=tuple(series))


_PEAK = Axis(name="memory at most", unit="payloads")


def memory(session: CompiledSession) -> Chart | None:
    """None where there is nothing to draw; of too many, those whose cases changed come first."""
    kinds: dict[str, list[Verdict]] = {}
    for one in session.verdicts:
        if one.case is not None:
            kinds.setdefault(_program_name(one, session), []).append(one)
    ordered = sorted(kinds, key=lambda name: all(_is_usual(one) for one in kinds[name]))
    shown = {name: kinds[name] for name in ordered[:MOST_CURVES]}
    series = tuple(
        Series(name=name, group=name, points=points)
        for name, those in shown.items()
        if (points := _peaks(those))
    )
    if not series:
        return None
    drawn = {one.name for one in series}
    marks = tuple(
        Mark(label=one.outcome.value, x=one.case.payload_bytes, series=name)
        for name, those in shown.items()
        for one in those
        if name in drawn and one.case is not None and one.outcome is Outcome.OUT_OF_MEMORY
    )
    left_out = len(kinds) - len(shown)
    more = f" {left_out} others are in the tables only." if left_out else ""
    # A single one has no legend.
    alone = f"{series[0].name}. " if len(series) == 1 else ""
    return Chart(
        title="Memory of compiled programs",
        subtitle=f"{alone}The most that one rank holds, in payloads, by the compiler.{more}",
        x=PAYLOAD,
        y=_PEAK,
        series=series,
        marks=marks,
    )


def _is_usual(verdict: Verdict) -> bool:
    return verdict.outcome in (Outcome.PASS, Outcome.NO_BASELINE)


def _program_name(verdict: Verdict, session: CompiledSession) -> str:
    assert verdict.case is not None
    groups = {one.case.group_name for one in session.verdicts if one.case is not None}
    mine = [one for one in session.verdicts if one.spec.topology == verdict.spec.topology]
    releases = {one.program.release for one in mine if one.program} - {""}
    words = [verdict.spec.topology]
    words += [verdict.case.group_name] if len(groups) > 1 else []
    words += [verdict.program.release] if verdict.program and len(releases) > 1 else []
    return ", ".join(words)


def _peaks(verdicts: list[Verdict]) -> tuple[tuple[int, float], ...]:
    return tuple(
        (one.case.payload_bytes, one.program.now.peak_bytes / one.case.payload_bytes)
        for one in sorted(verdicts, key=lambda one: one.spec.payload_bytes)
        if one.case is not None and one.program is not None and one.program.now is not None
    )

"""The curves of sessions by payload: names that tell them apart, and the charts of their values.

The bandwidths of one session have their baselines, and the losses that would not have been flagged;
with more curves than a reader can follow these are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

from busbw import metrics
from busbw.baselines.store import Published
from busbw.model.case import Case
from busbw.model.limits import moment_text
from busbw.model.verdict import Summary, Verdict
from busbw.model.words import Outcome, plural
from busbw.report.reading import CompiledSession, Session

from .chart import Axis, Chart, Kind, Point, Scale, mark, series

PAYLOAD = Axis(name="payload", unit="bytes", scale=Scale.LOG2)
_BUSBW = Axis(name="busbw", unit="GB/s", scale=Scale.LOG10)
_PEAK = Axis(name="memory at most", unit="payloads")
# With more a reader cannot follow them.
MOST_CURVES = 12
_MOST_WITH_BASELINES = 3
_MOST_LEVELS = 3
_LONGEST_SOURCE = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """The cases of one kind in one session, by payload; `case` is the smallest."""

    session: Session
    case: Case
    verdicts: tuple[Verdict, ...]

    @property
    def framework(self) -> str:
        return self.case.framework


def curves_of(session: Session) -> list[Curve]:
    found: dict[tuple[object, ...], list[tuple[Case, Verdict]]] = {}
    for one in session.verdicts:
        if (case := one.case) is not None:
            place = (case.ranks, case.mesh, case.placement, case.protocol.clock)
            found.setdefault((case.group_name, *place), []).append((case, one))
    curves = []
    for those in found.values():
        those.sort(key=lambda one: one[0].payload_bytes)
        verdicts = tuple(one for _, one in those)
        curves.append(Curve(session=session, case=those[0][0], verdicts=verdicts))
    return curves


_Word: TypeAlias = Callable[[Curve], str]
# What a curve's name may have. Of these what differs among all curves.
_DIFFER: Mapping[str, _Word] = {
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
    "host": lambda one: one.session.environment.host and f"on {one.session.environment.host}",
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


def named(curves: Sequence[Curve]) -> dict[str, Curve]:
    """Each by a name: framework and strategy, and in what it differs from others."""
    names = [f"{one.framework} {one.case.strategy}" for one in curves]
    for word in _DIFFER.values():
        names = _told(names, curves, word, [""] * len(curves))
    names = _told(names, curves, _version, [one.framework for one in curves])
    for word in _TELL:
        names = _told(names, curves, word, names)
    unique = (
        f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    )
    return dict(zip(unique, curves, strict=True))


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


_Named: TypeAlias = Mapping[str, Curve]
_Value: TypeAlias = Callable[[Verdict], float | None]


def points(curve: Curve, value: _Value) -> list[tuple[int, float]]:
    """The values of the cases that have one, by payload in bytes."""
    found = {one.spec.payload_bytes: value(one) for one in curve.verdicts}
    return [(payload, rate) for payload, rate in found.items() if rate is not None]


def _curves(curves: _Named, value: _Value) -> list[Point]:
    return [row for name, of in curves.items() for row in series(name, points(of, value))]


def _lines(curves: _Named, part: str, value: _Value) -> list[Point]:
    """Of the curves that have such values, in their colours."""
    return [
        row
        for name, of in curves.items()
        if (found := points(of, value))
        for row in series(f"{name}: {part}", found, Kind.LINE, group=name)
    ]


def _bands(
    curves: _Named, part: str, ends: Callable[[Verdict], tuple[float, float] | None]
) -> list[Point]:
    found = [
        (name, one.spec.payload_bytes, ends(one))
        for name, of in curves.items()
        for one in of.verdicts
    ]
    return [
        Point(kind=Kind.BAND, name=f"{name}: {part}", x=x, y=of[0], y2=of[1], group=name)
        for name, x, of in found
        if of is not None
    ]


def _marks(curves: _Named, outcomes: Collection[Outcome], value: _Value) -> list[Point]:
    return [
        mark(one.outcome.value, one.spec.payload_bytes, value(one), name)
        for name, of in curves.items()
        for one in of.verdicts
        if one.outcome in outcomes
    ]


_MARKED = (Outcome.REGRESSED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)


def bandwidth(sessions: Sequence[Session]) -> Chart:
    """The chart of at least one session. Raises ValueError where there is nothing to draw."""
    found = [curve for one in sessions for curve in curves_of(one)]
    if not any(points(one, measured) for one in found):
        raise ValueError("no bandwidth of a collective by itself")
    if len(found) > MOST_CURVES:
        raise ValueError(f"{len(found)} curves; accepted are {MOST_CURVES} in one chart")
    curves = named(found)
    few = curves if len(sessions) == 1 and len(curves) <= _MOST_WITH_BASELINES else {}
    levels = _ceilings(found)
    return Chart(
        title=f"{collectives_text(one.case.collective for one in found)}: bus bandwidth",
        subtitle=shared_text(found),
        x=PAYLOAD,
        y=_BUSBW,
        points=(
            *_curves(curves, measured),
            *_lines(few, _reference(sessions[0]), lambda one: _busbw(one.baseline)),
            *([] if len(levels) <= _MOST_LEVELS else _lines(curves, "ceiling", _ceiling)),
            *_published(found),
            *_bands(few, "loss within the limit", _within_limit),
            *(levels if len(levels) <= _MOST_LEVELS else []),
            *_marks(curves, _MARKED, measured),
        ),
    )


def _reference(session: Session) -> str:
    return "reference" if session.references else "baseline"


def collectives_text(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    return (found[0] if len(found) == 1 else "collectives").replace("_", "-").capitalize()


def _busbw(summary: Summary | None) -> float | None:
    return None if summary is None else summary.busbw_gb_per_s


def measured(one: Verdict) -> float | None:
    return _busbw(one.now)


def _ceiling(one: Verdict) -> float | None:
    return None if one.ceiling is None else one.ceiling.bytes_per_s / 1e9


def _within_limit(one: Verdict) -> tuple[float, float] | None:
    baseline = _busbw(one.baseline)
    if baseline is None or one.limit is None or one.limit <= 1:
        return None
    return baseline / one.limit, baseline


def _ceilings(curves: Sequence[Curve]) -> list[Point]:
    """A level for each: where they change with the payload, more than a chart can show."""
    found = {
        (f"ceiling {rate:.4g} GB/s: {one.ceiling.text}", round(rate, 6))
        for curve in curves
        for one in curve.verdicts
        if one.ceiling is not None and (rate := one.ceiling.bytes_per_s / 1e9)
    }
    return [Point(kind=Kind.LEVEL, name=label, y=rate) for label, rate in sorted(found)]


def _published(curves: Sequence[Curve]) -> list[Point]:
    found: dict[str, dict[int, float]] = {}
    for curve in curves:
        for one in curve.verdicts:
            rate = one.published and one.published.algbw_gb_per_s
            if one.published is not None and rate:
                of_source = found.setdefault(one.published.source, {})
                of_source.setdefault(one.spec.payload_bytes, rate * metrics.bus_factor(curve.case))
    return [
        row
        for source, of in found.items()
        for row in series(f"published: {source[:_LONGEST_SOURCE]}", sorted(of.items()))
    ]


# The greatest over the least ratio of a linear axis.
_MOST_LINEAR = 4.0
_COMPARED = (Outcome.REGRESSED, Outcome.IMPROVED)


def comparison(session: Session) -> Chart | None:
    """The chart of the curves that have ratios; None where there is none, or are too many."""

    def ratio(one: Verdict) -> float | None:
        return one.ratio

    found = [one for one in curves_of(session) if points(one, ratio)]
    if not found or len(found) > MOST_CURVES:
        return None
    curves = named(found)
    few = curves if len(curves) <= _MOST_WITH_BASELINES else {}
    ratios = [y for one in found for _, y in points(one, ratio)]
    is_wide = max(ratios) >= _MOST_LINEAR * min(ratios)
    return Chart(
        title=f"Time over that of the {_reference(session)}",
        subtitle=f"{shared_text(found)}. Above 1 is slower.",
        x=PAYLOAD,
        y=Axis(name="ratio of times", scale=Scale.LOG10 if is_wide else Scale.LINEAR),
        points=(
            *_curves(curves, ratio),
            *_lines(few, "limit", lambda one: one.ratio and one.limit),
            *_bands(few, "interval", lambda one: one.ratio_interval),
            Point(kind=Kind.LEVEL, name="no change", y=1.0),
            *(one for one in _marks(curves, _COMPARED, ratio) if one.y),
        ),
    )


def published(tables: Sequence[Published]) -> Chart:
    ordered = sorted(tables, key=lambda one: (one.ranks, one.slice))
    rows = [row for one in ordered for row in _published_rows(one)]
    kinds = " and ".join(dict.fromkeys(one.device_kind for one in ordered))
    sources = "; ".join(dict.fromkeys(one.source for one in ordered))
    is_doubtful = any(one.kind is Kind.MARK and one.y for one in rows)
    doubts = "; (?) marks doubtful figures" if is_doubtful else ""
    title = f"{collectives_text(one.collective for one in ordered)} on {kinds}: published bandwidth"
    return Chart(
        title=title,
        subtitle=f"{sources}. Shown as busbw, computed from the published algbw{doubts}.",
        x=PAYLOAD,
        y=_BUSBW,
        points=tuple(rows),
    )


def _published_rows(table: Published) -> Iterator[Point]:
    name = f"{table.slice} ({table.ranks} ranks)"
    factor = metrics.bus_factor_of(table.collective, table.ranks)
    entries = sorted(table.entries, key=lambda one: one.payload_bytes)
    rates = [(one, one.algbw_gb_per_s and one.algbw_gb_per_s * factor) for one in entries]
    yield from series(name, [(one.payload_bytes, rate) for one, rate in rates if rate is not None])
    for one, rate in rates:
        if rate is None or one.doubt:
            label = "OUT_OF_MEMORY" if rate is None else "(?)"
            yield mark(label, one.payload_bytes, rate, name)


def memory(session: CompiledSession) -> Chart | None:
    """None where there is nothing to draw; of too many, those whose cases changed come first."""
    kinds: dict[str, list[Verdict]] = {}
    for one in session.verdicts:
        if one.case is not None:
            kinds.setdefault(_program_name(one, session), []).append(one)
    usual = (Outcome.PASS, Outcome.NO_BASELINE)
    ordered = sorted(kinds, key=lambda name: all(one.outcome in usual for one in kinds[name]))
    peaks = {name: found for name in ordered[:MOST_CURVES] if (found := _peaks(kinds[name]))}
    if not peaks:
        return None
    left_out = len(kinds) - len(ordered[:MOST_CURVES])
    more = f" {left_out} others are in the tables only." if left_out else ""
    # A single one has no legend.
    alone = f"{next(iter(peaks))}. " if len(peaks) == 1 else ""
    return Chart(
        title="Memory of compiled programs",
        subtitle=f"{alone}The most that one rank holds, in payloads, by the compiler.{more}",
        x=PAYLOAD,
        y=_PEAK,
        points=(
            *(row for name, found in peaks.items() for row in series(name, found)),
            *(
                mark(one.outcome.value, one.spec.payload_bytes, None, name)
                for name in peaks
                for one in kinds[name]
                if one.outcome is Outcome.OUT_OF_MEMORY
            ),
        ),
    )


def _peaks(verdicts: Iterable[Verdict]) -> list[tuple[int, float]]:
    programs = ((one.spec.payload_bytes, one.program and one.program.now) for one in verdicts)
    return sorted((payload, now.peak_bytes / payload) for payload, now in programs if now)


def _program_name(verdict: Verdict, session: CompiledSession) -> str:
    assert verdict.case is not None
    groups = {one.case.group_name for one in session.verdicts if one.case is not None}
    mine = [one for one in session.verdicts if one.spec.topology == verdict.spec.topology]
    releases = {one.program.release for one in mine if one.program} - {""}
    words = [verdict.spec.topology]
    words += [verdict.case.group_name] if len(groups) > 1 else []
    words += [verdict.program.release] if verdict.program and len(releases) > 1 else []
    return ", ".join(words)

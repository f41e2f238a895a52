"""Busbw over payload, of sessions and as published, and the ratios of a session to its baselines.

The curves of one session have their baselines, and the losses that would not have been flagged;
with more curves than a reader can follow these are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from busbw import metrics
from busbw.baselines.store import Published
from busbw.model.words import Outcome
from busbw.report.reading import Session

from .chart import Axis, Band, Chart, Mark, Rule, Scale, Series, Style
from .curves import (
    BUSBW,
    MOST_CURVES,
    PAYLOAD,
    Cell,
    Curve,
    bare_curves,
    collectives_text,
    curves_of,
    names_of,
    shared_text,
)

_MOST_WITH_BASELINES = 3
_MOST_RULES = 3
_LONGEST_SOURCE = 60
_MARKED = (Outcome.REGRESSED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)


def bandwidth(sessions: Sequence[Session]) -> Chart:
    """The chart of at least one session. Raises ValueError where there is nothing to draw."""
    curves = [curve for one in sessions for curve in bare_curves(one)]
    if not any(cell.measured for one in curves for cell in one.cells):
        raise ValueError("no bandwidth of a collective by itself")
    if len(curves) > MOST_CURVES:
        raise ValueError(f"{len(curves)} curves; accepted are {MOST_CURVES} in one chart")
    named = dict(zip(names_of(curves), curves, strict=True))
    series = [_measured(name, one) for name, one in named.items()]
    marks = tuple(mark for name, one in named.items() for mark in _marks(name, one))
    with_baselines = len(sessions) == 1 and len(curves) <= _MOST_WITH_BASELINES
    baselines = [one for n, c in named.items() for one in _baseline(n, c) if with_baselines]
    bands = [one for n, c in named.items() for one in _bands(n, c) if with_baselines]
    title = f"{collectives_text(one.cells[0].case.collective for one in curves)}: bus bandwidth"
    subtitle = shared_text(curves)
    rules, ceilings = _ceilings(named)
    return Chart(
        title=title,
        subtitle=subtitle,
        x=PAYLOAD,
        y=BUSBW,
        series=(*series, *baselines, *ceilings, *_published(curves)),
        bands=tuple(bands),
        rules=rules,
        marks=marks,
    )


def _points(curve: Curve, value: Callable[[Cell], float | None]) -> tuple[tuple[int, float], ...]:
    found = {one.case.payload_bytes: value(one) for one in curve.cells}
    return tuple((payload, rate) for payload, rate in found.items() if rate is not None)


def _measured(name: str, curve: Curve) -> Series:
    return Series(name=name, group=name, points=_points(curve, lambda one: one.measured))


def _baseline(name: str, curve: Curve) -> list[Series]:
    points = _points(curve, lambda one: one.baseline)
    if not points:
        return []
    named = f"{name}: {'reference' if curve.session.is_paired else 'baseline'}"
    return [Series(name=named, group=name, points=points, style=Style.LINE)]


def _bands(name: str, curve: Curve) -> list[Band]:
    points = []
    for one in curve.cells:
        ratio = one.verdict.limit
        if one.baseline is not None and ratio is not None and ratio > 1:
            points.append((one.case.payload_bytes, one.baseline / ratio, one.baseline))
    what = f"{name}: loss within the limit"
    return [Band(name=what, group=name, points=tuple(points))] if points else []


def _marks(name: str, curve: Curve) -> list[Mark]:
    marked = [one for one in curve.cells if one.verdict.outcome in _MARKED]
    return [_mark(name, one, one.measured) for one in marked]


def _mark(name: str, cell: Cell, y: float | None) -> Mark:
    label = cell.verdict.outcome.value
    return Mark(label=label, x=cell.case.payload_bytes, y=y, series=name)


def _ceilings(named: Mapping[str, Curve]) -> tuple[tuple[Rule, ...], tuple[Series, ...]]:
    """A rule for each ceiling, or where they change with the payload a line for each curve."""
    found = {
        (round(one.ceiling, 6), one.verdict.ceiling.text)
        for curve in named.values()
        for one in curve.cells
        if one.ceiling is not None and one.verdict.ceiling is not None
    }
    if len(found) <= _MOST_RULES:
        rules = (Rule(label=f"ceiling {rate:.4g} GB/s: {text}", at=rate) for rate, text in found)
        return tuple(sorted(rules, key=lambda one: one.label)), ()
    lines = (
        Series(name=f"{name}: ceiling", group=name, points=points, style=Style.LINE)
        for name, curve in named.items()
        if (points := _points(curve, lambda one: one.ceiling))
    )
    return (), tuple(lines)


def _published(curves: Sequence[Curve]) -> list[Series]:
    found: dict[str, dict[int, float]] = {}
    for curve in curves:
        for one in curve.cells:
            if one.published is not None and one.verdict.published is not None:
                of_source = found.setdefault(one.verdict.published.source, {})
                of_source.setdefault(one.case.payload_bytes, one.published)
    return [
        Series(
            name=f"published: {source[:_LONGEST_SOURCE]}",
            points=tuple(sorted(points.items())),
            style=Style.LINE_AND_DOTS,
        )
        for source, points in found.items()
    ]


_RATIO = Axis(name="ratio of times")
_WIDE_RATIO = Axis(name="ratio of times", scale=Scale.LOG10)
# The greatest over the least ratio of a linear axis.
_MOST_LINEAR = 4.0
_COMPARED = (Outcome.REGRESSED, Outcome.IMPROVED)
_MOST_WITH_INTERVALS = 3


def comparison(session: Session, curves: Sequence[Curve] | None = None) -> Chart | None:
    """The chart of the curves that have ratios, or of those given; None where there is none."""
    found = [
        one
        for one in (curves_of(session) if curves is None else curves)
        if any(cell.verdict.ratio for cell in one.cells)
    ]
    if not found or len(found) > MOST_CURVES:
        return None
    named = dict(zip(names_of(found), found, strict=True))
    against = "the reference" if session.is_paired else "the baseline"
    few = len(named) <= _MOST_WITH_INTERVALS
    intervals = [band for name, one in named.items() if few and (band := _interval(name, one))]
    limits = [line for name, one in named.items() if few and (line := _limit(name, one))]
    title = f"Time over that of {against}"
    marks = tuple(mark for name, one in named.items() for mark in _ratio_marks(name, one))
    series = [_ratios(name, one) for name, one in named.items()]
    return Chart(
        title=title,
        subtitle=f"{shared_text(found)}. Above 1 is slower.",
        x=PAYLOAD,
        y=_axis([y for one in series for _, y in one.points]),
        series=(*series, *limits),
        bands=tuple(intervals),
        rules=(Rule(label="no change", at=1.0),),
        marks=marks,
    )


def _axis(ratios: Sequence[float]) -> Axis:
    return _RATIO if max(ratios) < _MOST_LINEAR * min(ratios) else _WIDE_RATIO


def _ratios(name: str, curve: Curve) -> Series:
    return Series(name=name, group=name, points=_points(curve, lambda one: one.verdict.ratio))


def _limit(name: str, curve: Curve) -> Series | None:
    points = _points(curve, lambda one: one.verdict.limit if one.verdict.ratio else None)
    named = f"{name}: limit"
    return Series(name=named, group=name, points=points, style=Style.LINE) if points else None


def _interval(name: str, curve: Curve) -> Band | None:
    points = tuple(
        (one.case.payload_bytes, *one.verdict.ratio_interval)
        for one in curve.cells
        if one.verdict.ratio_interval and one.verdict.ratio_interval[0] > 0
    )
    return Band(name=f"{name}: interval", group=name, points=points) if points else None


def _ratio_marks(name: str, curve: Curve) -> list[Mark]:
    compared = [one for one in curve.cells if one.verdict.outcome in _COMPARED]
    return [_mark(name, one, one.verdict.ratio) for one in compared if one.verdict.ratio]


def published(tables: Sequence[Published]) -> Chart:
    ordered = sorted(tables, key=lambda one: (one.ranks, one.slice))
    series = tuple(_series(one) for one in ordered)
    marks = tuple(mark for one in ordered for mark in _published_marks(one))
    kinds = " and ".join(dict.fromkeys(one.device_kind for one in ordered))
    sources = "; ".join(dict.fromkeys(one.source for one in ordered))
    doubts = "; (?) marks doubtful figures" if any(one.y for one in marks) else ""
    title = f"{collectives_text(one.collective for one in ordered)} on {kinds}: published bandwidth"
    return Chart(
        title=title,
        subtitle=f"{sources}. Shown as busbw, computed from the published algbw{doubts}.",
        x=PAYLOAD,
        y=BUSBW,
        series=series,
        marks=marks,
    )


def _name(curve: Published) -> str:
    return f"{curve.slice} ({curve.ranks} ranks)"


def _series(curve: Published) -> Series:
    factor = metrics.bus_factor_of(curve.collective, curve.ranks)
    points = sorted(
        (one.payload_bytes, one.algbw_gb_per_s * factor)
        for one in curve.entries
        if one.algbw_gb_per_s is not None
    )
    return Series(name=_name(curve), points=tuple(points))


def _published_marks(curve: Published) -> list[Mark]:
    factor = metrics.bus_factor_of(curve.collective, curve.ranks)
    marks = []
    for one in curve.entries:
        if one.algbw_gb_per_s is None:
            marks.append(Mark(label="OUT_OF_MEMORY", x=one.payload_bytes, series=_name(curve)))
        elif one.doubt:
            y = one.algbw_gb_per_s * factor
            marks.append(Mark(label="(?)", x=one.payload_bytes, y=y, series=_name(curve)))
    return marks

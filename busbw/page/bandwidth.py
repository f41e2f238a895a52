"""Busbw over payload, of sessions and as published, and the ratios of a session to its baselines.

The curves of one session have their baselines, and the losses that would not have been flagged;
with more curves than a reader can follow these are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

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


_Named = Mapping[str, Curve]


def bandwidth(sessions: Sequence[Session]) -> Chart:
    """The chart of at least one session. Raises ValueError where there is nothing to draw."""
    curves = [curve for one in sessions for curve in bare_curves(one)]
    if not any(cell.measured for one in curves for cell in one.cells):
        raise ValueError("no bandwidth of a collective by itself")
    if len(curves) > MOST_CURVES:
        raise ValueError(f"{len(curves)} curves; accepted are {MOST_CURVES} in one chart")
    named = dict(zip(names_of(curves), curves, strict=True))
    few = named if len(sessions) == 1 and len(curves) <= _MOST_WITH_BASELINES else {}
    baseline = "reference" if sessions[0].is_paired else "baseline"
    rules, ceilings = _ceilings(named)
    return Chart(
        title=f"{collectives_text(one.case.collective for one in curves)}: bus bandwidth",
        subtitle=shared_text(curves),
        x=PAYLOAD,
        y=BUSBW,
        series=(
            *_curves(named, lambda one: one.measured),
            *_lines(few, baseline, lambda one: one.baseline),
            *ceilings,
            *_published(curves),
        ),
        bands=_bands(few, "loss within the limit", _within_limit),
        rules=rules,
        marks=_marks(named, _MARKED, lambda one: one.measured),
    )


def _within_limit(cell: Cell) -> tuple[float, float] | None:
    ratio = cell.verdict.limit
    if cell.baseline is None or ratio is None or ratio <= 1:
        return None
    return cell.baseline / ratio, cell.baseline


def _points(curve: Curve, value: Callable[[Cell], float | None]) -> tuple[tuple[int, float], ...]:
    found = {one.case.payload_bytes: value(one) for one in curve.cells}
    return tuple((payload, rate) for payload, rate in found.items() if rate is not None)


def _curves(named: _Named, value: Callable[[Cell], float | None]) -> list[Series]:
    return [Series(name=name, group=name, points=_points(c, value)) for name, c in named.items()]


def _lines(named: _Named, part: str, value: Callable[[Cell], float | None]) -> list[Series]:
    """Of the curves that have such values, in their colours."""
    return [
        Series(name=f"{name}: {part}", group=name, points=points, style=Style.LINE)
        for name, curve in named.items()
        if (points := _points(curve, value))
    ]


def _bands(
    named: _Named, part: str, ends: Callable[[Cell], tuple[float, float] | None]
) -> tuple[Band, ...]:
    found = {
        name: [(one.case.payload_bytes, *of) for one in curve.cells if (of := ends(one))]
        for name, curve in named.items()
    }
    return tuple(
        Band(name=f"{name}: {part}", group=name, points=tuple(points))
        for name, points in found.items()
        if points
    )


def _marks(
    named: _Named, outcomes: Collection[Outcome], value: Callable[[Cell], float | None]
) -> tuple[Mark, ...]:
    return tuple(
        Mark(label=one.verdict.outcome.value, x=one.case.payload_bytes, y=value(one), series=name)
        for name, curve in named.items()
        for one in curve.cells
        if one.verdict.outcome in outcomes
    )


def _ceilings(named: _Named) -> tuple[tuple[Rule, ...], tuple[Series, ...]]:
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
    return (), tuple(_lines(named, "ceiling", lambda one: one.ceiling))


def _published(curves: Sequence[Curve]) -> list[Series]:
    found: dict[str, dict[int, float]] = {}
    for curve in curves:
        for one in curve.cells:
            if one.published is not None and one.verdict.published is not None:
                of_source = found.setdefault(one.verdict.published.source, {})
                of_source.setdefault(one.case.payload_bytes, one.published)
    return [
        Series(name=f"published: {source[:_LONGEST_SOURCE]}", points=tuple(sorted(points.items())))
        for source, points in found.items()
    ]


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
    few = named if len(named) <= _MOST_WITH_INTERVALS else {}
    series = _curves(named, lambda one: one.verdict.ratio)
    ratios = [y for one in series for _, y in one.points]
    is_wide = max(ratios) >= _MOST_LINEAR * min(ratios)
    return Chart(
        title=f"Time over that of the {'reference' if session.is_paired else 'baseline'}",
        subtitle=f"{shared_text(found)}. Above 1 is slower.",
        x=PAYLOAD,
        y=Axis(name="ratio of times", scale=Scale.LOG10 if is_wide else Scale.LINEAR),
        series=(
            *series,
            *_lines(few, "limit", lambda one: one.verdict.ratio and one.verdict.limit),
        ),
        bands=_bands(few, "interval", _interval),
        rules=(Rule(label="no change", at=1.0),),
        marks=tuple(
            one for one in _marks(named, _COMPARED, lambda one: one.verdict.ratio) if one.y
        ),
    )


def _interval(cell: Cell) -> tuple[float, float] | None:
    found = cell.verdict.ratio_interval
    return found if found and found[0] > 0 else None


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

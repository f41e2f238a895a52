"""Ratios of a session over payload: today's time over that of the baseline or the reference."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model import Outcome

from ..chart import Axis, Band, Chart, Mark, Rule, Scale, Series, Style
from ..reading import Session
from .curves import PAYLOAD, Curve, curves_of, names_of, shared_text

_RATIO = Axis(name="ratio of times")
_WIDE_RATIO = Axis(name="ratio of times", scale=Scale.LOG10)
# The greatest over the least ratio of a linear axis.
_MOST_LINEAR = 4.0
_MARKED = (Outcome.REGRESSED, Outcome.IMPROVED)
_MOST_CURVES = 12
_MOST_WITH_INTERVALS = 3


def comparison(session: Session, curves: Sequence[Curve] | None = None) -> Chart | None:
    """The chart of the curves that have ratios, or of those given; None where there is none."""
    found = [
        one
        for one in (curves_of(session) if curves is None else curves)
        if any(cell.verdict.ratio for cell in one.cells)
    ]
    if not found or len(found) > _MOST_CURVES:
        return None
    named = dict(zip(names_of(found), found, strict=True))
    against = "the reference" if session.is_paired else "the baseline"
    few = len(named) <= _MOST_WITH_INTERVALS
    intervals = [band for name, one in named.items() if few and (band := _interval(name, one))]
    limits = [line for name, one in named.items() if few and (line := _limit(name, one))]
    title = f"Time over that of {against}"
    marks = tuple(mark for name, one in named.items() for mark in _marks(name, one))
    series = [_ratios(name, one) for name, one in named.items()]
    said = [
        f"{title}: {one.name}, from {min(y for _, y in one.points):.3g} "
        f"to {max(y for _, y in one.points):.3g}."
        for one in series
    ]
    return Chart(
        title=title,
        subtitle=f"{shared_text(found)}. Above 1 is slower.",
        x=PAYLOAD,
        y=_axis([y for one in series for _, y in one.points]),
        series=(*series, *limits),
        bands=tuple(intervals),
        rules=(Rule(label="no change", at=1.0),),
        marks=marks,
        description=" ".join(said),
    )


def _axis(ratios: Sequence[float]) -> Axis:
    return _RATIO if max(ratios) < _MOST_LINEAR * min(ratios) else _WIDE_RATIO


def _ratios(name: str, curve: Curve) -> Series:
    points = (
        (one.case.payload_bytes, one.verdict.ratio) for one in curve.cells if one.verdict.ratio
    )
    return Series(name=name, group=name, points=tuple(points))


def _limit(name: str, curve: Curve) -> Series | None:
    points = tuple(
        (one.case.payload_bytes, one.verdict.limit)
        for one in curve.cells
        if one.verdict.limit and one.verdict.ratio
    )
    named = f"{name}: limit"
    return Series(name=named, group=name, points=points, style=Style.LINE) if points else None


def _interval(name: str, curve: Curve) -> Band | None:
    points = tuple(
        (one.case.payload_bytes, *one.verdict.ratio_interval)
        for one in curve.cells
        if one.verdict.ratio_interval and one.verdict.ratio_interval[0] > 0
    )
    return Band(name=f"{name}: interval", group=name, points=points) if points else None


def _marks(name: str, curve: Curve) -> list[Mark]:
    return [
        Mark(
            label=one.verdict.outcome.value,
            x=one.case.payload_bytes,
            y=one.verdict.ratio,
            series=name,
        )
        for one in curve.cells
        if one.verdict.outcome in _MARKED and one.verdict.ratio
    ]

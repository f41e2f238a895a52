"""Times of training steps over the gradient's size, and those of training under strategies."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.report.reading import Session

from ..chart import Axis, Chart, Position, Scale, Series, Style
from .curves import PAYLOAD, Cell, Curve, curves_of, names_of, shared_text

_TIME = Axis(name="time of a step", unit="ms", scale=Scale.LOG10)
_STRATEGY = Axis(name="strategy", scale=Scale.CATEGORY)
_MOST_CURVES = 12


def steps(session: Session) -> Chart | None:
    found = [
        one
        for one in curves_of(session)
        if not one.cells[0].case.workload.is_bare and not one.cells[0].case.workload.own_strategies
    ]
    series = [
        Series(name=name, group=name, points=points)
        for name, one in zip(names_of(found), found)
        if (points := tuple((cell.case.payload_bytes, ms) for cell, ms in _times(one.cells)))
    ]
    return _chart("Training steps", found, series[:_MOST_CURVES], PAYLOAD)


def strategies(session: Session) -> Chart | None:
    found = [one for one in curves_of(session) if one.cells[0].case.workload.own_strategies]
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
    return _chart("Training under strategies", found, series, _STRATEGY)


def _times(cells: Sequence[Cell]) -> list[tuple[Cell, float]]:
    return [(one, 1e3 * one.verdict.now.median_s) for one in cells if one.verdict.now]


def _chart(title: str, curves: Sequence[Curve], series: Sequence[Series], x: Axis) -> Chart | None:
    if not series:
        return None
    said = (
        f"{one.name}: {min(y for _, y in one.points):.4g} ms "
        f"to {max(y for _, y in one.points):.4g} ms."
        for one in series
    )
    return Chart(
        title=title,
        subtitle=shared_text(curves),
        x=x,
        y=_TIME,
        series=tuple(series),
        description=" ".join([f"{title}.", *said]),
    )

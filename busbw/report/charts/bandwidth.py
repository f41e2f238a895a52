"""Busbw over payload: a curve for each framework and strategy of each session.

The curves of one session have their baselines, and the losses that would not have been flagged;
with more curves than a reader can follow these are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from busbw.model import Outcome

from ..chart import Band, Chart, Edge, Mark, Rule, Series, Style
from ..reading import Session
from .curves import (
    BUSBW,
    PAYLOAD,
    Cell,
    Curve,
    bare_curves,
    collectives_text,
    names_of,
    sentence,
    shared_text,
)

_MOST_CURVES = 12
_MOST_WITH_BASELINES = 3
_MOST_RULES = 3
_LONGEST_SOURCE = 60
_MARKED = (Outcome.REGRESSED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)


def bandwidth(sessions: Sequence[Session]) -> Chart:
    """The chart of at least one session. Raises ValueError where there is nothing to draw."""
    curves = [curve for one in sessions for curve in bare_curves(one)]
    if not any(cell.measured for one in curves for cell in one.cells):
        raise ValueError("no bandwidth of a collective by itself")
    if len(curves) > _MOST_CURVES:
        raise ValueError(f"{len(curves)} curves; accepted are {_MOST_CURVES} in one chart")
    named = dict(zip(names_of(curves), curves, strict=True))
    series = [_measured(name, one) for name, one in named.items()]
    marks = tuple(mark for name, one in named.items() for mark in _marks(name, one))
    with_baselines = len(sessions) == 1 and len(curves) <= _MOST_WITH_BASELINES
    baselines = [one for n, c in named.items() for one in _baseline(n, c) if with_baselines]
    bands = [one for n, c in named.items() for one in _bands(n, c) if with_baselines]
    title = f"{collectives_text(one.cells[0].case.collective for one in curves)}: bus bandwidth"
    subtitle = shared_text(curves)
    rules, ceilings = _ceilings(named)
    said = [f"{title}. {subtitle}.", *(sentence(one, marks) for one in series)]
    said += [f"{one.label}." for one in rules]
    return Chart(
        title=title,
        subtitle=subtitle,
        x=PAYLOAD,
        y=BUSBW,
        series=(*series, *baselines, *ceilings, *_published(curves)),
        bands=tuple(bands),
        rules=rules,
        marks=marks,
        description=" ".join(said),
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
    return [
        Mark(
            label=one.verdict.outcome.value,
            x=one.case.payload_bytes,
            y=one.measured,
            edge=Edge.BOTTOM,
            series=name,
        )
        for one in curve.cells
        if one.verdict.outcome in _MARKED
    ]


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
            if one.published is not None and one.verdict.reference is not None:
                of_source = found.setdefault(one.verdict.reference.source, {})
                of_source.setdefault(one.case.payload_bytes, one.published)
    return [
        Series(
            name=f"published: {source[:_LONGEST_SOURCE]}",
            points=tuple(sorted(points.items())),
            style=Style.LINE_AND_DOTS,
        )
        for source, points in found.items()
    ]

"""Published bandwidths over payload: a curve for each slice, and where memory ran out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw import metrics

from ..chart import Chart, Mark, Series
from .curves import BUSBW, PAYLOAD, collectives_text, sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedPoint:
    """A figure as it was published: algbw in GB/s, or None where memory ran out."""

    payload_bytes: int
    algbw_gb_per_s: float | None
    doubt: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedCurve:
    """One published table: `slice` names what was measured, such as ``v2-8``."""

    slice: str
    device_kind: str
    ranks: int
    collective: str
    source: str
    points: tuple[PublishedPoint, ...]


def published(curves: Sequence[PublishedCurve]) -> Chart:
    ordered = sorted(curves, key=lambda one: (one.ranks, one.slice))
    series = tuple(_series(one) for one in ordered)
    marks = tuple(mark for one in ordered for mark in _marks(one))
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
        description=" ".join([f"{title}.", *(sentence(one, marks) for one in series)]),
    )


def _name(curve: PublishedCurve) -> str:
    return f"{curve.slice} ({curve.ranks} ranks)"


def _series(curve: PublishedCurve) -> Series:
    factor = metrics.bus_factor_of(curve.collective, curve.ranks)
    points = sorted(
        (one.payload_bytes, one.algbw_gb_per_s * factor)
        for one in curve.points
        if one.algbw_gb_per_s is not None
    )
    return Series(name=_name(curve), points=tuple(points))


def _marks(curve: PublishedCurve) -> list[Mark]:
    factor = metrics.bus_factor_of(curve.collective, curve.ranks)
    marks = []
    for one in curve.points:
        if one.algbw_gb_per_s is None:
            marks.append(Mark(label="OUT_OF_MEMORY", x=one.payload_bytes, series=_name(curve)))
        elif one.doubt:
            y = one.algbw_gb_per_s * factor
            marks.append(Mark(label="(?)", x=one.payload_bytes, y=y, series=_name(curve)))
    return marks

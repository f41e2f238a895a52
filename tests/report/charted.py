"""Builders for tests of charts; no test lives here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from busbw.report.chart import Axis, Band, Chart, Direction, Mark, Rule, Scale, Series, Style

PAYLOAD = Axis(name="payload", unit="bytes", scale=Scale.LOG2)
BUSBW = Axis(name="busbw", unit="GB/s", scale=Scale.LOG10)


def chart(**changes: Any) -> Chart:
    """Two curves, a band, rules of both directions, a point and an edge that are marked."""
    ordinary = Chart(
        title="All-reduce",
        subtitle="on four ranks",
        x=PAYLOAD,
        y=BUSBW,
        series=(
            Series(name="jax", points=((1024, 0.5), (4096, 2.0), (16384, 6.0)), group="a"),
            Series(name="old", points=((1024, 0.6), (4096, 2.1)), group="a", style=Style.LINE),
            Series(name="tf", points=((1024, 0.1), (4096, 0.3))),
        ),
        bands=(Band(name="unseen", points=((1024, 0.4, 0.6), (4096, 1.8, 2.1)), group="a"),),
        rules=(
            Rule(label="ceiling", at=12.0),
            Rule(label="new compiler", at=2048, direction=Direction.VERTICAL),
        ),
        marks=(
            Mark(label="REGRESSED", x=4096, y=2.0, series="jax"),
            Mark(label="OUT_OF_MEMORY", x=16384, series="tf"),
        ),
        description="jax is faster",
    )
    return replace(ordinary, **changes)

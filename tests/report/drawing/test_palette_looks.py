"""Colours, symbols and dashes of series and bands."""

from __future__ import annotations

from busbw.report.chart import Series
from busbw.report.drawing.palette import LIGHT, looks_of

from ..charted import chart


def test_a_group_shares_a_colour_and_its_lines_differ_by_their_dashes() -> None:
    looks = looks_of(chart())
    assert looks["jax"].colour == looks["old"].colour != looks["tf"].colour
    assert looks["jax"].dash != looks["old"].dash
    assert looks["unseen"].colour == LIGHT.bands[0]


def test_the_legend_has_group_after_group() -> None:
    assert list(looks_of(chart())) == ["jax", "old", "unseen", "tf"]


def test_twelve_curves_differ_by_more_than_colour() -> None:
    series = tuple(Series(name=str(n), points=((8, 1.0),)) for n in range(12))
    looks = looks_of(chart(series=series, bands=(), marks=())).values()
    assert len({(one.colour, one.shape) for one in looks}) == 12
    assert len({one.shape for one in list(looks)[:6]}) == 6

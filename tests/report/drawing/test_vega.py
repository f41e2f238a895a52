"""The specification: whole, plain data, with nothing to load and no text of a user's in a rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from busbw.report.chart import Axis, Chart, Mark, Scale, Series
from busbw.report.drawing import specification
from busbw.report.drawing.layout import Size

from ..charted import BUSBW, chart

NAME = "'; fetch('x') //"


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key and its value, at any depth."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield key, one
            yield from _inside(one)
    elif isinstance(value, list):
        for one in value:
            yield from _inside(one)


def _layers(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in spec["layer"] if one["mark"]["type"] == kind]


def test_it_is_plain_data_with_its_values_in_it_and_nothing_to_load() -> None:
    spec = specification(chart(), Size(width=400))
    assert spec == json.loads(json.dumps(spec, allow_nan=False))
    keys = {key for key, _ in _inside(spec)}
    assert not keys & {"url", "href", "params", "transform"}
    assert all("values" in one["data"] for one in spec["layer"])


def test_names_are_never_part_of_an_expression() -> None:
    named = chart(
        title=NAME,
        series=(Series(name=NAME, points=((1024, 1.0),)),),
        bands=(),
        marks=(Mark(label=NAME, x=1024, series=NAME),),
    )
    expressions = [
        one
        for key, one in _inside(specification(named, Size()))
        if key in ("labelExpr", "expr", "signal", "test", "filter", "calculate")
    ]
    assert expressions
    assert not any("fetch" in one for one in expressions)


def test_it_is_as_wide_as_asked_and_higher_with_a_longer_legend() -> None:
    small = specification(chart(), Size(width=400))
    assert small["width"] == 400
    assert small["autosize"] == {"type": "fit", "contains": "padding"}
    names = tuple(Series(name="n" * 50 + str(n), points=((1024, 1.0),)) for n in range(8))
    long = specification(chart(series=names, bands=(), marks=()), Size(width=400))
    assert long["height"] > small["height"] + 50


def test_axes_are_logarithmic_with_ticks_of_payloads() -> None:
    (dots,) = [
        one
        for one in _layers(specification(chart(), Size()), "point")
        if "shape" in one["encoding"]
    ]
    x, y = dots["encoding"]["x"], dots["encoding"]["y"]
    assert (x["scale"]["base"], y["scale"]["base"]) == (2, 10)
    assert x["axis"]["values"] == [1024.0, 2048.0, 4096.0, 8192.0, 16384.0]
    assert "'K'" in x["axis"]["labelExpr"]


def test_a_line_has_a_dash_and_a_dot_a_shape_and_both_the_same_colour() -> None:
    spec = specification(chart(), Size())
    (line,) = _layers(spec, "line")
    encoding = line["encoding"]
    assert encoding["color"]["scale"]["domain"] == encoding["strokeDash"]["scale"]["domain"]
    assert len(line["data"]["values"]) == 7
    assert {row["name"] for row in line["data"]["values"]} == {"jax", "old", "tf"}


def test_marks_without_a_value_are_at_the_bottom_with_the_word() -> None:
    marks = (
        *(Mark(label="OUT_OF_MEMORY", x=16384, series=name) for name in ("jax", "tf")),
        Mark(label="TIMEOUT", x=1024),
    )
    spec = specification(chart(marks=marks), Size())
    symbols = next(
        one for one in _layers(spec, "point") if one["mark"].get("shape", "").startswith("M")
    )
    low, above, other = [row["y"] for row in symbols["data"]["values"]]
    assert low == other < above < 0.1
    texts = [row["label"] for one in _layers(spec, "text") for row in one["data"]["values"]]
    assert {"OUT_OF_MEMORY", "TIMEOUT"} <= set(texts)


def test_one_curve_needs_no_legend() -> None:
    alone = chart(series=chart().series[:1], bands=(), marks=())
    (line,) = _layers(specification(alone, Size()), "line")
    assert line["encoding"]["color"]["legend"] is None


@pytest.mark.parametrize(
    ("axis", "places", "kind"),
    [
        (
            Axis(name="night", scale=Scale.TIME),
            [datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2)],
            "temporal",
        ),
        (Axis(name="host", scale=Scale.CATEGORY), ["a", "b"], "nominal"),
        (Axis(name="sample"), [0.0, 1.0], "quantitative"),
    ],
)
def test_other_axes_have_their_own_scale(axis: Axis, places: list[Any], kind: str) -> None:
    series = Series(name="s", points=tuple((x, 1.0) for x in places))
    mark = Mark(label="REGRESSED", x=places[1], y=1.0, series="s")
    one = Chart(title="t", x=axis, y=BUSBW, series=(series,), marks=(mark,))
    (line,) = _layers(specification(one, Size()), "line")
    assert line["encoding"]["x"]["type"] == kind


def test_categories_that_are_cut_stay_different() -> None:
    names = ["h" * 100 + one for one in "ab"]
    axis = Axis(name="host", scale=Scale.CATEGORY)
    series = Series(name="s", points=tuple((name, 1.0) for name in names))
    (line,) = _layers(
        specification(Chart(title="t", x=axis, y=BUSBW, series=(series,)), Size()), "line"
    )
    shown = [row["x"] for row in line["data"]["values"]]
    assert len(set(shown)) == 2
    assert line["encoding"]["x"]["sort"] == shown

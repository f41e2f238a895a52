"""The specification: plain data, with nothing to load and no text of a user's in an expression."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw.page.chart import (
    Axis,
    Chart,
    Gap,
    Heatmap,
    HeatmapMark,
    HeatmapRow,
    Mark,
    Picture,
    Rule,
    Scale,
    Series,
)
from busbw.page.pictures import png, svg
from busbw.page.vega import plain, specification
from tests.report.shown import BUSBW, chart

NAME = "'; fetch('x') //"
BEGIN = datetime(2025, 12, 1, 3, tzinfo=timezone.utc)
BINS = (0.7, 0.85, 0.92, 0.96, 1.0, 1.04, 1.08, 1.2, 1.5)


def _heatmap(nights: int = 365, **changes: Any) -> Heatmap:
    """Rows of the bins one after another, with a night of each kind of gap."""
    cells: list[float | Gap] = [BINS[at % 9] for at in range(nights)]
    cells[-len(Gap) :] = list(Gap)[-nights:]
    made = tuple(
        HeatmapRow(
            group=f"group {at // 21}",
            label=f"{at}K",
            cells=tuple(cells),
            marks=(HeatmapMark(column=nights // 2, text="+8 %"),),
        )
        for at in range(42)
    )
    columns = tuple(BEGIN + timedelta(days=at) for at in range(nights))
    ordinary: dict[str, Any] = {"title": "t", "subtitle": "s", "edges": (0.03, 0.06, 0.12, 0.25)}
    return Heatmap(**{**ordinary, "rows": made, "columns": columns, **changes})


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key and its value, at any depth."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield key, one
            yield from _inside(one)
    elif isinstance(value, list):
        for one in value:
            yield from _inside(one)


def _marked(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in spec["layer"] if one["mark"]["type"] == kind]


def _rows(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in spec["data"]["values"] if one["kind"] == kind]


@pytest.mark.parametrize("picture", [chart(), _heatmap()], ids=["chart", "heat map"])
def test_it_is_plain_data_with_its_values_in_it_and_nothing_to_load(picture: Picture) -> None:
    spec = specification(picture, 400)
    assert spec == json.loads(json.dumps(spec, allow_nan=False))
    assert not {key for key, _ in _inside(spec)} & {"url", "href", "params"}


@pytest.mark.parametrize(
    "picture",
    [
        chart(
            title=NAME,
            series=(Series(name=NAME, points=((1024, 1.0),)),),
            bands=(),
            rules=(Rule(label=NAME, at=1.0),),
            marks=(Mark(label=NAME, x=1024, series=NAME),),
        ),
        _heatmap(rows=(HeatmapRow(group=NAME, label=NAME, cells=(1.0,) * 365),)),
    ],
    ids=["chart", "heat map"],
)
def test_names_are_never_part_of_an_expression(picture: Picture) -> None:
    expressions = [
        one
        for key, one in _inside(specification(picture, 720))
        if key in ("labelExpr", "expr", "signal", "test", "filter", "calculate")
    ]
    assert expressions
    assert not any("fetch" in one for one in expressions)


def test_twelve_curves_differ_by_more_than_colour() -> None:
    series = tuple(Series(name=str(n), points=((8, 1.0),)) for n in range(12))
    (dots,) = _marked(specification(chart(series=series, bands=(), marks=()), 720), "point")
    looks = zip(*(dots["encoding"][one]["scale"]["range"] for one in ("color", "shape")))
    assert len(set(looks)) == 12


def test_marks_without_a_value_are_above_each_other_at_the_bottom_and_named_once() -> None:
    marks = (
        *(Mark(label="OUT_OF_MEMORY", x=16384, series=name) for name in ("jax", "tf")),
        Mark(label="TIMEOUT", x=1024),
    )
    spec = specification(chart(marks=marks), 720)
    low = _rows(spec, "low")
    assert [one["above"] for one in low] == [10, 22, 10]
    assert len({one["sign"] for one in low}) == 2
    named = [(one["text"], one["side"], one["above"]) for one in _rows(spec, "first low")]
    assert named == [("OUT_OF_MEMORY", "right", 34), ("TIMEOUT", "left", 46)]


def test_one_curve_needs_no_legend() -> None:
    alone = chart(series=chart().series[:1], bands=(), marks=())
    (line,) = _marked(specification(alone, 720), "line")
    assert line["encoding"]["color"]["legend"] is None


@pytest.mark.parametrize(
    ("axis", "places", "kind"),
    [
        (Axis(name="host", scale=Scale.CATEGORY), ["a", "b"], "nominal"),
        (Axis(name="night", scale=Scale.TIME), [BEGIN, BEGIN + timedelta(days=1)], "temporal"),
        (Axis(name="rank"), [0, 1], "quantitative"),
    ],
)
def test_other_axes_have_their_own_scale(axis: Axis, places: list[Any], kind: str) -> None:
    series = Series(name="s", points=tuple((one, 1.0) for one in places))
    one = Chart(title="t", x=axis, y=BUSBW, series=(series,))
    (line,) = _marked(specification(one, 720), "line")
    assert line["encoding"]["x"]["type"] == kind


def _cells(heatmap: Heatmap) -> list[dict[str, Any]]:
    values = specification(heatmap, 720)["data"]["values"]
    return [one for one in values if "what" in one]


def test_neighbours_in_one_bin_are_one_rectangle_from_night_to_night() -> None:
    row = HeatmapRow(group="g", label="1K", cells=(1.0,) * 180 + (1.08,) * 185)
    first, second = _cells(_heatmap(rows=(row,)))
    assert (first["from"], first["to"]) == ("2025-12-01T03:00:00Z", "2026-05-30T03:00:00Z")
    assert (second["from"], second["to"]) == ("2026-05-30T03:00:00Z", "2026-12-01T03:00:00Z")
    assert (first["what"], second["what"]) == ("0.97 to 1.03", "1.06 to 1.12")


def test_each_bin_and_gap_has_a_colour_and_what_is_not_measured_has_none() -> None:
    spec = specification(_heatmap(), 720)
    scale = spec["spec"]["layer"][0]["encoding"]["color"]["scale"]
    assert len(set(scale["range"])) == len(scale["domain"]) == 9 + 3
    assert {one["what"] for one in _cells(_heatmap())} == set(scale["domain"])
    quiet = HeatmapRow(group="g", label="1K", cells=(1.0,) * 365)
    shown = specification(_heatmap(rows=(quiet,)), 720)["spec"]["layer"][0]["encoding"]["color"]
    assert len(shown["scale"]["domain"]) == 9


def test_text_is_one_line_of_what_xml_may_hold() -> None:
    assert plain("a\nb\x00\u202e  c") == "a b c"
    assert plain("x" * 300, 10) == "xxxxxxx..."


@pytest.mark.parametrize(
    "picture",
    [
        chart(series=(), bands=(), marks=(), rules=()),
        chart(series=(Series(name="one", points=((1024, 1.0),)),), bands=(), marks=()),
        chart(series=(), bands=(), rules=(), marks=(Mark(label="OUT_OF_MEMORY", x=1024),)),
        _heatmap(1),
        _heatmap(5, columns=tuple(BEGIN + timedelta(hours=at) for at in range(5))),
    ],
    ids=["nothing", "one point", "never a value", "one night", "one day"],
)
def test_little_is_drawn_too(picture: Picture) -> None:
    pytest.importorskip("vl_convert")
    assert Tree.fromstring(svg(picture, 400)).tag.endswith("svg")
    assert png(picture, 400, scale=1).startswith(b"\x89PNG")


def test_a_year_of_42_cases_takes_less_than_500_kb() -> None:
    pytest.importorskip("vl_convert")
    rows = tuple(
        HeatmapRow(
            group="g",
            label=f"{at}K",
            cells=tuple(1.0 if (at * 365 + night) % 9 else 1.05 for night in range(365)),
        )
        for at in range(42)
    )
    assert len(svg(_heatmap(rows=rows))) < 500_000

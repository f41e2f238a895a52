"""A heat map drawn: a path for each colour, readable rows, dates that fit, and a legend."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw.report.chart import Gap, Heatmap, HeatmapMark, HeatmapRow
from busbw.report.drawing import specification
from busbw.report.drawing.layout import Size
from busbw.report.drawing.palette import LIGHT
from busbw.report.pictures import png, svg

BEGIN = datetime(2025, 12, 1, 3, tzinfo=timezone.utc)
SVG = "{http://www.w3.org/2000/svg}"
BINS = (0.7, 0.85, 0.92, 0.96, 1.0, 1.04, 1.08, 1.2, 1.5)
HOSTILE = "<script>alert(1)</script>\"'&\x00\u202e datum.x " + "y" * 300


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


def _texts(spec: dict[str, Any]) -> list[dict[str, Any]]:
    layers = [one for one in spec["layer"] if one["mark"]["type"] == "text"]
    return [row for one in layers for row in one["data"]["values"]]


def _strokes(spec: dict[str, Any]) -> list[str]:
    return [one["mark"]["stroke"] for one in spec["layer"] if one["mark"]["type"] == "point"]


def test_each_bin_and_gap_has_a_colour_of_its_own() -> None:
    strokes = _strokes(specification(_heatmap(), Size()))
    wanted = {LIGHT.same, *LIGHT.slower, *LIGHT.faster, LIGHT.muted, LIGHT.failed}
    assert wanted <= set(strokes)


def test_it_is_plain_data_with_nothing_to_load() -> None:
    spec = specification(_heatmap(), Size(width=400))
    assert spec == json.loads(json.dumps(spec, allow_nan=False))
    assert "url" not in json.dumps({**spec, "$schema": ""})


@pytest.mark.parametrize("width", [400, 720])
def test_rows_are_as_far_apart_as_their_labels_are_high(width: int) -> None:
    texts = _texts(specification(_heatmap(), Size(width=width)))
    rows = sorted(one["y"] for one in texts if re.fullmatch(r"\d+K", one["label"]))
    assert len(rows) == 42
    assert min(after - before for before, after in pairwise(rows)) >= 12


@pytest.mark.parametrize("width", [280, 350, 400, 720])
@pytest.mark.parametrize("nights", [1, 2, 13, 45, 357, 365])
def test_dates_do_not_overlap_and_stay_within(width: int, nights: int) -> None:
    texts = _texts(specification(_heatmap(nights), Size(width=width)))
    above = [one for one in texts if re.match(r"\d{4}-\d\d", one["label"]) and one["y"] < 20]
    assert above
    ends = [one["x"] + 5.5 * len(one["label"]) for one in above]
    assert all(end < one["x"] for end, one in zip(ends, above[1:]))
    assert ends[-1] <= width - 16


def test_sessions_of_one_day_are_told_apart_by_the_hour() -> None:
    columns = tuple(BEGIN + timedelta(hours=at) for at in range(5))
    texts = _texts(specification(_heatmap(5, columns=columns), Size()))
    labels = [one["label"] for one in texts if re.match(r"\d\d-\d\d", one["label"])]
    assert labels[0] == "12-01 03:00"
    assert max(map(labels.count, labels)) == 2


def test_neighbours_of_equal_colour_are_one_line() -> None:
    row = HeatmapRow(group="g", label="1K", cells=(1.0,) * 180 + (1.08,) * 185)
    spec = specification(_heatmap(rows=(row,)), Size())
    first, second = spec["layer"][:2]
    assert (first["mark"]["shape"].count("h"), second["mark"]["shape"].count("h")) == (1, 1)


def test_the_legend_names_what_is_there_and_nothing_else() -> None:
    labels = {one["label"] for one in _texts(specification(_heatmap(), Size()))}
    kinds = {"OUT_OF_MEMORY", "FAILED", "injected", "not measured", "level changed"}
    assert kinds | {"faster", "slower", "0.97", "1.03", "0.80", "1.25"} <= labels
    row = HeatmapRow(group="g", label="1K", cells=(1.0,) * 365)
    quiet = specification(_heatmap(rows=(row,)), Size())
    assert not kinds & {one["label"] for one in _texts(quiet)}


@pytest.fixture
def _drawn() -> None:
    pytest.importorskip("vl_convert")


@pytest.mark.usefixtures("_drawn")
@pytest.mark.parametrize("width", [400, 720])
def test_a_year_of_42_cases_takes_less_than_100_kb_and_is_as_wide_as_asked(width: int) -> None:
    steps = [
        HeatmapRow(
            group="g",
            label=f"{at}K",
            cells=tuple(1.0 if (at * 365 + night) % 9 else 1.05 for night in range(365)),
        )
        for at in range(42)
    ]
    text = svg(_heatmap(rows=tuple(steps)), Size(width=width))
    assert len(text) < 100_000
    assert Tree.fromstring(text).get("width") == str(width)


@pytest.mark.usefixtures("_drawn")
def test_every_colour_of_the_picture_is_a_role() -> None:
    for one in Tree.fromstring(svg(_heatmap(), Size())).iter():
        for kind in ("fill", "stroke"):
            if one.get(kind, "none") not in ("none", "transparent"):
                assert f"{kind}-" in one.attrib["class"]


@pytest.mark.usefixtures("_drawn")
@pytest.mark.parametrize("nights", [1, 3, 20])
def test_hostile_names_add_no_element(nights: int) -> None:
    row = HeatmapRow(
        group=HOSTILE,
        label=HOSTILE,
        cells=(1.0,) * nights,
        marks=(HeatmapMark(column=0, text=HOSTILE),),
    )
    named = _heatmap(nights, title=HOSTILE, subtitle=HOSTILE, description=HOSTILE, rows=(row,))
    tags = {one.tag.removeprefix(SVG) for one in Tree.fromstring(svg(named, Size())).iter()}
    assert tags <= {"svg", "title", "desc", "style", "g", "path", "text", "tspan", "line", "rect"}
    assert png(named, Size(), scale=1).startswith(b"\x89PNG")

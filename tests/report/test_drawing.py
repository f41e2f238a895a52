"""The specification: whole, plain data, with nothing to load and no text of a user's in a rule.

Also what fits where, colours that everybody can tell apart, and paths in few bytes.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw.report.chart import (
    Axis,
    Chart,
    Gap,
    Heatmap,
    HeatmapMark,
    HeatmapRow,
    Mark,
    Scale,
    Series,
)
from busbw.report.drawing import specification
from busbw.report.drawing.annotations import ABOVE, AROUND, ENDS, UPWARDS, Box, Labels, Place
from busbw.report.drawing.layout import (
    Range,
    Size,
    cut,
    legend_columns,
    plain,
    text_px,
    ticks,
    unlike,
    wrapped,
)
from busbw.report.drawing.palette import DARK, LIGHT, ROLES, Theme, looks_of
from busbw.report.pictures import png, shortened, svg
from tests.report.shown import BUSBW, PAYLOAD, chart

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


WHOLE = Range(low=900.0, high=2.0**30 * 1.4, is_log=True)


@pytest.mark.parametrize(("length", "powers"), [(330, range(10, 31, 4)), (940, range(10, 31, 2))])
def test_payloads_have_ticks_at_powers_of_two_as_many_as_fit(length: int, powers: range) -> None:
    assert ticks(PAYLOAD, WHOLE, length) == [2.0**power for power in powers]


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        (1.5, 6.3, [2.0, 3.0, 4.0, 5.0, 6.0]),
        (1.01, 1.09, [1.02, 1.04, 1.06, 1.08]),
        (21.0, 24.0, [21.0, 21.5, 22.0, 22.5, 23.0, 23.5, 24.0]),
        (9.0, 9.5, [9.0, 9.1, 9.2, 9.3, 9.4, 9.5]),
    ],
)
def test_rates_that_are_close_have_ticks_too(low: float, high: float, values: list[float]) -> None:
    assert ticks(BUSBW, Range(low=low, high=high, is_log=True), 300) == pytest.approx(values)


def test_rates_have_ticks_at_powers_of_ten_and_between_them_where_there_is_room() -> None:
    found = Range(low=0.8, high=12.0, is_log=True)
    assert ticks(BUSBW, found, 400) == [1.0, 2.0, 5.0, 10.0]
    assert ticks(BUSBW, Range(low=0.01, high=300.0, is_log=True), 200) == pytest.approx(
        [0.01, 0.1, 1.0, 10.0, 100.0]
    )


def test_a_range_has_a_margin_and_a_place_for_each_value() -> None:
    found = Range.of(BUSBW, [1.0, 16.0], before=0.25, after=0.5)
    assert (found.low, found.high) == pytest.approx((0.5, 64.0))
    assert found.at(found.share(3.0)) == pytest.approx(3.0)
    assert (found.share(0.5), found.share(64.0)) == pytest.approx((0.0, 1.0))


def test_text_is_one_line_of_what_xml_may_hold() -> None:
    assert plain("a\n\tb\x00\x1b[31m\u202ec\ud800\ufffe") == "a b [31m c"
    assert plain("x" * 1000) == "x" * 197 + "..."


def test_lines_are_no_wider_than_the_picture_and_no_more_than_allowed() -> None:
    lines = wrapped("word " * 100, 400, font=12, most=3)
    assert len(lines) == 3 and lines[-1].endswith("...")
    assert max(map(len, lines)) * 12 * 0.5 < 400
    assert wrapped("y" * 500, 400, font=12, most=2)[0] == "y" * 62


def test_a_text_that_is_cut_is_as_long_as_there_is_room_and_says_so() -> None:
    whole = "libtpu 0.0.34 -> 0.0.35"
    assert cut(whole, 200, font=11) == whole
    short = cut(whole, 100, font=11)
    assert short.startswith("libtpu 0.0") and short.endswith("...") and text_px(short, 11) <= 100
    assert len(cut(whole, 1, font=11)) <= 4


def test_names_that_are_cut_stay_different() -> None:
    shown = unlike(["n" * 100 + "1", "n" * 100 + "2", "", "\x00"])
    assert len(set(shown.values())) == 4
    assert max(map(len, shown.values())) <= 84


def test_a_legend_has_as_many_columns_as_fit() -> None:
    assert legend_columns(["a" * 10] * 9, 400, font=11) == 4
    assert legend_columns(["a" * 200], 400, font=11) == 1


def test_the_height_follows_from_the_width() -> None:
    assert Size(width=400).plot_height == 240
    assert Size(width=1000).plot_height == 520


def _around(x: float, y: float) -> list[tuple[tuple[float, float], Place]]:
    return [((x, y), place) for place in AROUND]


def test_a_label_is_below_its_point_where_nothing_is_in_the_way() -> None:
    assert Labels(400, []).add(_around(100, 100), 60) == 0


def test_a_label_is_where_it_hides_the_fewest_points() -> None:
    below = [(100 + at, 83.0) for at in range(-20, 20, 5)]
    assert Labels(400, below).add(_around(100, 100), 60) == 1
    above = [(100 + at, 115.0) for at in range(-20, 20, 5)]
    assert Labels(400, [*below, *above]).add(_around(100, 100), 60) == 2
    assert Labels(400, [(300, 83)]).add(_around(100, 100), 60) == 0


def test_labels_at_one_point_are_around_it_and_then_left_out() -> None:
    labels = Labels(400, [])
    found = [labels.add(_around(200, 100), 80) for _ in range(20)]
    written = [one for one in found if one >= 0]
    assert found[-1] == -1 and len(set(written)) == len(written) > 3
    boxes = [Box.of((200, 100), 80, AROUND[one]) for one in written]
    assert not any(a.is_near(b) for a in boxes for b in boxes if a is not b)


@pytest.mark.parametrize("x", [0.0, 5.0, 395.0, 400.0])
def test_near_the_ends_a_label_stays_within_the_picture(x: float) -> None:
    index = Labels(400, []).add(_around(x, 100), 100)
    box = Box.of((x, 100), 100, AROUND[index])
    assert index >= 0 and box.left >= -4 and box.right <= 400


def test_a_label_longer_than_the_picture_is_left_out() -> None:
    assert Labels(200, []).add([((100, 10), place) for place in ABOVE], 300) == -1


def test_labels_of_rules_keep_to_their_ends_and_run_upwards() -> None:
    labels = Labels(400, [])
    ends = [((400.0 if one.align == "right" else 0.0, 50.0), one) for one in ENDS]
    assert [labels.add(ends, 300) for _ in range(3)] == [0, 2, -1]
    upright = [((100.0, 200.0), UPWARDS)]
    assert labels.add(upright, 60) == 0
    assert labels.add([((108.0, 200.0), UPWARDS)], 60) == -1
    box = Box.of((100.0, 200.0), 60, UPWARDS)
    assert (box.high - box.low, box.right - box.left) == (60, 12)


each_theme = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])

# Vienot, Brettel and Mollon 1999: linear RGB as seen without the red or without the green cones.
NO_RED = ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0))
NO_GREEN = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))


def _linear(colour: str) -> list[float]:
    parts = [one / 255 for one in bytes.fromhex(colour[1:])]
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]


def _contrast(one: str, other: str) -> float:
    weights = (0.2126, 0.7152, 0.0722)
    lights = sorted(
        sum(w * c for w, c in zip(weights, _linear(colour))) + 0.05 for colour in (one, other)
    )
    return lights[1] / lights[0]


def _seen(colour: str, matrix: tuple[tuple[float, ...], ...]) -> list[float]:
    linear = _linear(colour)
    seen = [sum(m * c for m, c in zip(row, linear)) for row in matrix]
    return [max(one, 0.0) ** (1 / 2.4) for one in seen]


@each_theme
def test_no_two_roles_share_a_colour(theme: Theme) -> None:
    assert len(set(theme.roles.values())) == len(theme.roles)
    assert tuple(theme.roles) == ROLES


@each_theme
def test_text_and_lines_stand_out_from_the_background(theme: Theme) -> None:
    assert _contrast(theme.text, theme.background) > 7
    assert _contrast(theme.muted, theme.background) > 4.5
    assert all(_contrast(one, theme.background) > 2.9 for one in theme.series)


@each_theme
@pytest.mark.parametrize("matrix", [NO_RED, NO_GREEN], ids=["no red", "no green"])
def test_series_differ_without_red_and_without_green(
    theme: Theme, matrix: tuple[tuple[float, ...], ...]
) -> None:
    seen = [_seen(one, matrix) for one in theme.series]
    for one, other in itertools.combinations(seen, 2):
        assert sum((a - b) ** 2 for a, b in zip(one, other)) ** 0.5 > 0.12


def _distance(one: list[float], other: list[float]) -> float:
    return float(sum((a - b) ** 2 for a, b in zip(one, other)) ** 0.5)


_AS_IS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@each_theme
@pytest.mark.parametrize("matrix", [_AS_IS, NO_RED, NO_GREEN], ids=["all", "no red", "no green"])
def test_bins_of_a_heat_map_differ_from_their_neighbours_and_from_the_other_side(
    theme: Theme, matrix: tuple[tuple[float, ...], ...]
) -> None:
    scale = [*reversed(theme.faster), theme.same, *theme.slower]
    seen = [_seen(one, matrix) for one in scale]
    assert min(itertools.starmap(_distance, itertools.pairwise(seen))) > 0.1
    sides = itertools.product(theme.faster, theme.slower)
    assert min(_distance(_seen(a, matrix), _seen(b, matrix)) for a, b in sides) > 0.1


@each_theme
def test_bins_stand_out_the_more_the_farther_they_are_from_the_middle(theme: Theme) -> None:
    for side in (theme.slower, theme.faster):
        contrasts = [_contrast(one, theme.same) for one in side]
        assert contrasts == sorted(contrasts) and contrasts[0] > 1.3
    assert _contrast(theme.failed, theme.background) > 3


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


CIRCLE = "M3,0A3,3,0,1,1,-3,0A3,3,0,1,1,3,0"
CROSS = "M-2,-2L2,2M2,-2L-2,2"


def _path(d: str, x: float, y: float, **attributes: str) -> Tree.Element:
    return Tree.Element("path", {"d": d, "transform": f"translate({x},{y})", **attributes})


def _ends(d: str) -> list[tuple[str, float, float]]:
    """The steps of a path of relative moves, each with where it leads."""
    found, x, y = [], 0.0, 0.0
    for name, numbers in re.findall(r"([Mmlhv])([^Mmlhv]*)", d):
        values = [float(one) for one in numbers.split(",")]
        x += 0.0 if name == "v" else values[0]
        y += values[-1] if name in "Mmlv" else 0.0
        found.append((name.upper() if name in "Mm" else "L", round(x, 2), round(y, 2)))
    return found


def test_dots_of_one_colour_are_one_path_with_round_ends() -> None:
    places = [(10.0, 20.5), (11.25, 19.0), (300.0, 19.0)]
    (one,) = shortened(
        _path(CIRCLE, x, y, fill="#123456", **{"class": "fill-a"}) for x, y in places
    )
    assert one.attrib == {
        "d": one.get("d"),
        "stroke": "#123456",
        "class": "stroke-a",
        "stroke-width": "6",
        "stroke-linecap": "round",
    }
    assert [(x, y) for name, x, y in _ends(one.attrib["d"]) if name == "M"] == places
    assert one.attrib["d"].count("h0") == 3


def test_crosses_become_one_path_where_they_were() -> None:
    (one,) = shortened([_path(CROSS, 10, 10, stroke="#1"), _path(CROSS, 50, 10, stroke="#1")])
    assert _ends(one.attrib["d"]) == [
        *(("M", 8, 8), ("L", 12, 12), ("M", 12, 8), ("L", 8, 12)),
        *(("M", 48, 8), ("L", 52, 12), ("M", 52, 8), ("L", 48, 12)),
    ]
    assert one.get("transform") is None and one.get("stroke") == "#1"


def test_errors_of_rounding_do_not_add_up() -> None:
    steps = "".join(f"{'ML'[at % 2]}{at / 3:.4f},{at / 7:.4f}" for at in range(1000))
    (one,) = shortened([_path(steps, 0, 0)])
    ends = _ends(one.attrib["d"])
    assert max(abs(x - at / 3) for at, (_, x, _) in enumerate(ends)) < 0.011
    assert max(abs(y - at / 7) for at, (_, _, y) in enumerate(ends)) < 0.011
    assert len(one.attrib["d"]) < 0.8 * len(steps)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_path(CIRCLE, 1, 1, fill="a"), _path(CIRCLE, 2, 1, fill="b")),
        (_path(CIRCLE, 1, 1, fill="a", stroke="b"), _path(CIRCLE, 2, 1, fill="a", stroke="b")),
        (_path(CIRCLE, 1, 1), _path(CIRCLE.replace("3", "4"), 2, 1)),
        (_path("M0,0L1,1Z", 1, 1), _path("M0,0L1,1Z", 2, 1)),
        (Tree.Element("g", {"transform": "translate(1,1)"}), Tree.Element("g")),
        (_path(CROSS, 1, 1), Tree.Element("path", {"d": CROSS})),
    ],
)
def test_what_differs_or_is_no_line_and_no_dot_stays_apart(
    one: Tree.Element, other: Tree.Element
) -> None:
    assert len(list(shortened([one, other]))) == 2


def test_others_between_keep_their_place() -> None:
    text = Tree.Element("text")
    found = list(shortened([_path(CIRCLE, 1, 1), _path(CIRCLE, 2, 1), text, _path(CIRCLE, 3, 1)]))
    assert [one.tag for one in found] == ["path", "text", "path"]
    assert found[2].get("d") == CIRCLE

"""A Chart or a Heatmap as a Vega-Lite specification: Vega lays out axes, ticks, legends and labels.

Decides how a picture looks, never what it shows. Values stand in the specification, so that nothing
is loaded; names are values of it, and never part of an expression.
"""

from __future__ import annotations

import itertools
import math
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from busbw.model.limits import moment_text

from .chart import (
    Axis,
    Band,
    Chart,
    Direction,
    Gap,
    Heatmap,
    HeatmapRow,
    Mark,
    Picture,
    Scale,
    Series,
    Style,
)
from .palette import LIGHT, config

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
_DASHES = ([1, 0], [4, 3], [2, 2], [7, 2, 2, 2])
# Of marks, each kind of which is named once.
_SIGNS = ["M-1,-1L1,1M-1,1L1,-1", "M-1,0L1,0M0,-1L0,1", "M-1,-1h2v2h-2z", "M0,-1L1,1h-2z"]
# 1K is 1024 bytes, and 1G is written 1024M.
_PAYLOAD = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + 'M' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~r') + 'K' : format(datum.value, '~r')"
)
_NUMBER = "format(datum.value, '~g')"
# Of a decade 1, 2 and 5 have labels; of less than one all that there is room for.
_DIGIT = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
_SHOWN = f"domain('y')[1] < 10 * domain('y')[0] || indexof([1, 2, 5], {_DIGIT}) >= 0"
_DECADES = f"{_SHOWN} ? {_NUMBER} : ''"
_LONGEST = 1000
_ROW_PX, _LABEL_PX = 12, 60
# Above all points, for the labels of vertical rules.
_HEAD_PX = 130


def specification(picture: Picture, width: int) -> Spec:
    """`width` is that of the whole picture in pixels, from which its height follows."""
    drawn: Spec = (
        _heatmap(picture, width) if isinstance(picture, Heatmap) else _chart(picture, width)
    )
    columns = max(20, int(width / 7.0))
    return {
        "$schema": SCHEMA,
        "padding": 8,
        "background": "transparent",
        "title": {
            "aria": False,
            "text": _wrapped(picture.title, columns - 4, 3),
            "subtitle": _wrapped(picture.subtitle, columns, 6),
        },
        "config": config(legend_columns=max(1, width // 230)),
        **drawn,
    }


def plain(text: str, longest: int = _LONGEST) -> str:
    """One line of printable text that XML may hold, of `longest` characters at most."""
    printable = (" " if unicodedata.category(c).startswith(("C", "Z")) else c for c in text)
    line = " ".join("".join(printable).split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def _wrapped(text: str, columns: int, most: int) -> list[str]:
    return textwrap.wrap(plain(text, 600), columns, max_lines=most, placeholder=" ...")


def _chart(chart: Chart, width: int) -> Spec:
    """Every layer draws the rows of its own kind."""
    head = _HEAD_PX if any(one.direction is Direction.VERTICAL for one in chart.rules) else 0
    rows = [*_part_rows(chart), *_rule_rows(chart), *_mark_rows(chart)]
    kinds = {one["kind"] for one in rows}
    # Below all points, for what has no value, and its names.
    foot = max((one["above"] + 10 for one in rows if one["kind"].endswith("low")), default=0)
    return {
        "width": width,
        # Of what is between the axes.
        "height": max(190, round(0.45 * width)) + head + foot,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": rows},
        "layer": [
            {"transform": [{"filter": f"datum.kind == '{kind}'"}], "mark": mark, "encoding": of}
            for kind, mark, of in _layers(chart, head, foot)
            if kind in {*kinds, "line"}
        ],
    }


def _layers(chart: Chart, head: int, foot: int) -> Iterator[tuple[str, Spec, Spec]]:
    """Of each its kind of rows, its mark, and its channels."""
    x, y = _channel(chart.x, "x", _places(chart)), _channel(chart.y, "y")
    y["scale"] |= {"range": [{"expr": f"height - {foot}"}, head]} if head or foot else {}
    at, looks, text = {"x": x, "y": y}, _looks(chart), {"text": {"field": "text"}}
    colour, muted = {"color": looks["color"]}, {"color": LIGHT.muted}
    label = {"type": "text", "baseline": "bottom", "dy": -3, **muted}
    sign = {"type": "point", "size": 60, "strokeWidth": 2, "opacity": 1, "color": LIGHT.text}
    above = {"type": "text", "limit": 220, "color": LIGHT.text}
    signs = {"shape": {"field": "sign", "type": "nominal", "scale": None}}
    bottom = {"x": x, "y": {"value": "height"}}
    yield "band", {"type": "area"}, {**at, "y2": {"field": "y2"}, **colour}
    yield "line", {"type": "line"}, {**at, **colour, "strokeDash": looks["strokeDash"]}
    dots = {"type": "point", "filled": True, "opacity": 1}
    yield "dots", dots, {**at, **colour, "shape": looks["shape"]}
    yield "y", {"type": "rule", "strokeDash": [2, 2], **muted}, {"y": y}
    yield "y", {**label, "align": "left", "x": 4, "limit": 260}, {"y": y, **text}
    yield "x", {"type": "rule", "strokeDash": [2, 2], **muted}, {"x": x}
    turned = {"align": "right", "angle": 270, "y": 4, "limit": _HEAD_PX}
    yield "x", {**label, **turned}, {"x": x, **text}
    yield "mark", sign, {**at, **signs}
    yield "low", {**sign, "yOffset": {"expr": "-datum.above"}}, {**bottom, **signs}
    # What stands at several points is named at the first.
    yield "first mark", {**above, "dy": -12}, {**at, **text}
    named = {**above, "align": {"expr": "datum.side"}, "dy": {"expr": "-datum.above"}}
    yield "first low", named, {**bottom, **text}


def _part_rows(chart: Chart) -> Iterator[Spec]:
    for band in chart.bands:
        for x, low, high in band.points:
            yield _row("band", x, name=plain(band.name), y=low, y2=high)
    for one in chart.series:
        for kind, other in (("line", Style.DOTS), ("dots", Style.LINE)):
            if one.style is not other:
                yield from (_row(kind, x, name=plain(one.name), y=y) for x, y in one.points)


def _rule_rows(chart: Chart) -> Iterator[Spec]:
    for one in chart.rules:
        kind = "y" if one.direction is Direction.HORIZONTAL else "x"
        yield {"kind": kind, kind: _row(kind, one.at)["x"], "text": plain(one.label, 80)}


def _mark_rows(chart: Chart) -> Iterator[Spec]:
    """Those without a value are above each other at the bottom, and their names above all."""
    low = Counter(one.x for one in chart.marks if one.y is None)
    # How many are there already at each place, and below the next name.
    there = Counter[object]({None: max(low.values(), default=0)})
    places = sorted({one for one in chart.all_x if not isinstance(one, str)})
    signs: dict[str, str] = {}

    def row(kind: str, one: Mark, place: object) -> Spec:
        there[place] += one.y is None
        text, above = plain(one.label, 60), 12 * there[place] - 2
        return _row(kind, one.x, y=one.y, text=text, sign=signs[one.label], above=above)

    for one in chart.marks:
        kind, is_first = "low" if one.y is None else "mark", one.label not in signs
        signs.setdefault(one.label, _SIGNS[len(signs) % len(_SIGNS)])
        yield row(kind, one, one.x)
        if is_first:
            late = one.x in places[len(places) // 2 :]
            yield row(f"first {kind}", one, None) | {"side": "right" if late else "left"}


def _row(kind: str, x: object, **others: object) -> Spec:
    place = moment_text(x) if isinstance(x, datetime) else plain(x) if isinstance(x, str) else x
    return {"kind": kind, "x": place, **others}


def _places(chart: Chart) -> list[int]:
    """Ticks of payloads, of which each is a power of two."""
    if not chart.x.is_payload:
        return []
    sizes = [math.log2(one) for one in chart.all_x if isinstance(one, int | float)]
    powers = range(math.ceil(min(sizes)), math.floor(max(sizes)) + 1) if sizes else ()
    return [2**power for power in powers]


def _channel(axis: Axis, name: str, places: Sequence[int] = ()) -> Spec:
    shown: Spec = {"title": plain(axis.heading, 60), "grid": True}
    if axis.scale is Scale.CATEGORY:
        return {"field": name, "type": "nominal", "sort": None, "axis": shown | {"labelAngle": 0}}
    if axis.scale is Scale.TIME:
        shown |= {"tickCount": 6, "grid": False}
        return {"field": name, "type": "temporal", "scale": {"type": "utc"}, "axis": shown}
    kind: Spec = {"type": "linear", "zero": False, "padding": 16, "nice": False}
    shown["labelExpr"] = _PAYLOAD if axis.is_payload else _DECADES if axis.is_log else _NUMBER
    if axis.is_log:
        kind |= {"type": "log", "base": 2 if axis.scale is Scale.LOG2 else 10}
    # Where there is no room for all, every other one, so that both ends of a usual sweep stay.
    shown |= {"values": list(places), "labelOverlap": "parity"} if places else {}
    return {"field": name, "type": "quantitative", "scale": kind, "axis": shown}


def _looks(chart: Chart) -> dict[str, Spec]:
    """Channels with one legend; a chart of one thing needs none.

    Series of a group share colour and symbol, and have a dash each.
    """
    groups = list(dict.fromkeys(one.group or one.name for one in chart.parts))
    lines: Counter[str] = Counter()
    looks: dict[str, tuple[str, str, Sequence[int]]] = {}
    for one in chart.parts:
        group = one.group or one.name
        at, is_band = groups.index(group), isinstance(one, Band)
        colours = LIGHT.bands if is_band else LIGHT.series
        # Beyond the last colour they begin again, with another symbol.
        shape = "square" if is_band else _SHAPES[(at + at // len(LIGHT.series)) % len(_SHAPES)]
        shape = "stroke" if isinstance(one, Series) and one.style is Style.LINE else shape
        dash = _DASHES[0 if is_band else lines[group] % len(_DASHES)]
        lines[group] += isinstance(one, Series) and one.style is not Style.DOTS
        looks[plain(one.name)] = colours[at % len(colours)], shape, dash
    legend = {"title": None} if len(looks) > 1 else None
    return {
        channel: _nominal("name", {"domain": list(looks), "range": list(of)}, legend)
        for channel, of in zip(("color", "shape", "strokeDash"), zip(*looks.values()))
    } or {channel: {} for channel in ("color", "shape", "strokeDash")}


def _nominal(field: str, scale: Spec, legend: Spec | None) -> Spec:
    return {"field": field, "type": "nominal", "sort": None, "scale": scale, "legend": legend}


def _heatmap(heatmap: Heatmap, width: int) -> Spec:
    """Groups of rows below each other; what is alike and next to each other is one rectangle."""
    order = [one.label for one in heatmap.rows]
    across = _across(heatmap)
    y = {"field": "row", "type": "nominal", "sort": list(dict.fromkeys(order)), "title": None}
    x = {"field": "from", "type": "temporal", "scale": {"type": "utc", "nice": False}}
    x |= {"axis": {"title": None, "tickCount": 6, "orient": "top"}}
    cells = [one for row in heatmap.rows for one in _cells(heatmap, row, across)]
    bars = [
        {**_named(row), "from": across[mark.column], "bar": "level changed"}
        for row in heatmap.rows
        for mark in row.marks
    ]
    names = _bins(heatmap)
    there = {one["what"] for one in cells}
    shown = {name: names[name] for name in names if name in there or name not in _GAPS}
    scale = {"domain": list(shown), "range": list(shown.values())}
    colour = {"field": "what", "type": "nominal", "title": None, "scale": scale}
    return {
        "data": {"values": cells + bars},
        "facet": {
            "row": {
                "field": "group",
                "sort": list(dict.fromkeys(plain(one.group) for one in heatmap.rows)),
                "header": {"title": None, "labelOrient": "top", "labelAnchor": "start"},
            }
        },
        "spec": {
            "width": max(120, width - _LABEL_PX - 16),
            "height": {"step": _ROW_PX},
            "layer": [
                {
                    "transform": [{"filter": "isValid(datum.to)"}],
                    "mark": "rect",
                    "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "color": colour},
                },
                {
                    "transform": [{"filter": "isValid(datum.bar)"}],
                    "mark": {"type": "tick", "thickness": 2, "color": LIGHT.text, "opacity": 1},
                    "encoding": {"x": x, "y": y},
                },
            ],
        },
        "resolve": {"scale": {"y": "independent"}, "axis": {"x": "independent"}},
        "spacing": 4,
    }


def _across(heatmap: Heatmap) -> list[str]:
    """Where each column begins, and where the last one ends."""
    columns = heatmap.columns
    steps = sorted(after - before for before, after in itertools.pairwise(columns))
    last = columns[-1] + (steps[len(steps) // 2] if steps else timedelta(days=1))
    return [moment_text(one) for one in (*columns, last)]


def _named(row: HeatmapRow) -> Spec:
    return {"group": plain(row.group), "row": plain(row.label)}


def _cells(heatmap: Heatmap, row: HeatmapRow, across: Sequence[str]) -> Iterator[Spec]:
    names = list(_bins(heatmap))
    middle = len(heatmap.edges)
    what = [
        one.value if isinstance(one, Gap) else names[middle + heatmap.bin_of(one)]
        for one in row.cells
    ]
    first = 0
    for at in range(1, len(what) + 1):
        if at == len(what) or what[at] != what[first]:
            if what[first] != Gap.MISSING.value:
                yield {
                    **_named(row),
                    "from": across[first],
                    "to": across[at],
                    "what": what[first],
                }
            first = at


_GAPS = {
    Gap.OUT_OF_MEMORY.value: LIGHT.muted,
    Gap.FAILED.value: LIGHT.failed,
    Gap.INJECTED.value: LIGHT.injected,
}


def _bins(heatmap: Heatmap) -> dict[str, str]:
    """The colours of bins by their names in the legend, fastest first, and of what has no ratio."""
    edges = [1 / (1 + one) for one in reversed(heatmap.edges)]
    edges += [1 + one for one in heatmap.edges]
    names = [f"below {edges[0]:.2f}"]
    names += [f"{low:.2f} to {high:.2f}" for low, high in itertools.pairwise(edges)]
    names += [f"above {edges[-1]:.2f}"]
    count = len(heatmap.edges)
    colours = [*reversed(LIGHT.faster[:count]), LIGHT.same, *LIGHT.slower[:count]]
    return dict(zip(names, colours)) | _GAPS

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from busbw.model.limits import moment_text

from .chart import Axis, Band, Chart, Direction, Gap, Heatmap, HeatmapRow, Picture, Scale, Style
from .palette import LIGHT, config

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
_DASHES = ([1, 0], [4, 3], [2, 2], [7, 2, 2, 2])
# Of marks that have no name in the legend but a sign of their own.
_SIGNS = ("M-1,-1L1,1M-1,1L1,-1", "M-1,0L1,0M0,-1L0,1", "M-1,-1h2v2h-2z", "M0,-1L1,1h-2z")
# 1K is 1024 bytes, and 1G is written 1024M.
_PAYLOAD = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + 'M' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~r') + 'K' : format(datum.value, '~r')"
)
_NUMBER = "format(datum.value, '~g')"
# Of a decade 1, 2 and 5 have labels.
_DIGIT = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
_DECADES = f"indexof([1, 2, 5], {_DIGIT}) < 0 ? '' : {_NUMBER}"
_LONGEST = 200
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


def _unlike(names: Sequence[str]) -> dict[str, str]:
    """Names as they are shown, short and printable, and still all different."""
    shown: dict[str, str] = {}
    for name in names:
        base = text = plain(name, 60) or "(no name)"
        count = 1
        while text in shown.values():
            count += 1
            text = f"{base} ({count})"
        shown[name] = text
    return shown


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """How the legend shows one series, band or kind of mark: `name`, and what else is its own."""

    name: str
    colour: str
    shape: str = "circle"
    dash: Sequence[int] = (1, 0)


def _looks(chart: Chart) -> dict[str, _Look]:
    """By the names of series and bands, and labels of several marks or of one without a value."""
    counts = Counter(one.label for one in chart.marks)
    counts.update(one.label for one in chart.marks if one.y is None)
    signs = [label for label, count in counts.items() if count > 1]
    names = _unlike([*(one.name for one in chart.parts), *signs])
    groups = list(dict.fromkeys(one.group or one.name for one in chart.parts))
    lines: Counter[str] = Counter()
    found = {}
    for one in chart.parts:
        group = one.group or one.name
        at = groups.index(group)
        number = at % len(LIGHT.series)
        if isinstance(one, Band):
            colour, shape, dash = LIGHT.bands[number], "square", _DASHES[0]
        else:
            # Beyond the last colour they begin again, with another symbol.
            shape = _SHAPES[(at + at // len(LIGHT.series)) % len(_SHAPES)]
            shape = "stroke" if one.style is Style.LINE else shape
            colour, dash = LIGHT.series[number], _DASHES[lines[group] % len(_DASHES)]
            lines[group] += one.style is not Style.DOTS
        found[one.name] = _Look(name=names[one.name], colour=colour, shape=shape, dash=dash)
    for at, label in enumerate(signs):
        sign = _SIGNS[at % len(_SIGNS)]
        found[label] = _Look(name=names[label], colour=LIGHT.text, shape=sign)
    return found


def _chart(chart: Chart, width: int) -> Spec:
    head = _HEAD_PX if _has_heads(chart) else 0
    return {
        "width": width,
        # Of what is between the axes.
        "height": max(190, round(0.45 * width)) + head,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": [*_parts(chart), *_rules(chart), *_marks(chart)],
    }


def _row(x: object, **others: object) -> Spec:
    if isinstance(x, datetime):
        return {"x": moment_text(x), **others}
    return {"x": plain(x) if isinstance(x, str) else x, **others}


def _channel(axis: Axis, name: str) -> Spec:
    shown: Spec = {"title": plain(axis.heading, 60), "grid": True}
    if axis.scale is Scale.CATEGORY:
        return {"field": name, "type": "nominal", "sort": None, "axis": shown | {"labelAngle": 0}}
    if axis.scale is Scale.TIME:
        shown |= {"tickCount": 6, "grid": False}
        return {"field": name, "type": "temporal", "scale": {"type": "utc"}, "axis": shown}
    kind: Spec = {"type": "linear", "zero": False, "padding": 16, "nice": False}
    shown["labelExpr"] = _PAYLOAD if axis.is_payload else _NUMBER
    if axis.is_log:
        kind |= {"type": "log", "base": 2 if axis.scale is Scale.LOG2 else 10}
        shown["labelExpr"] = _PAYLOAD if axis.is_payload else _DECADES
    return {"field": name, "type": "quantitative", "scale": kind, "axis": shown}


def _has_heads(chart: Chart) -> bool:
    return any(one.direction is Direction.VERTICAL for one in chart.rules)


def _xy(chart: Chart) -> Spec:
    x, y = _channel(chart.x, "x"), _channel(chart.y, "y")
    if chart.x.is_payload:
        sizes = [math.log2(one) for one in chart.all_x if isinstance(one, int | float)]
        powers = range(math.ceil(min(sizes)), math.floor(max(sizes)) + 1) if sizes else ()
        x["axis"]["values"] = [2**power for power in powers]
    if _has_heads(chart):
        y["scale"]["range"] = [{"expr": "height"}, _HEAD_PX]
    return {"x": x, "y": y}


def _styles(looks: Mapping[str, _Look], *channels: str) -> Spec:
    """Channels by name, with one legend for all of them; a chart of one thing needs none."""
    shown = list(looks.values())
    ranges: Mapping[str, list[Any]] = {
        "color": [one.colour for one in shown],
        "shape": [one.shape for one in shown],
        "strokeDash": [list(one.dash) for one in shown],
    }
    domain = [one.name for one in shown]
    legend = {"title": None} if len(shown) > 1 else None
    return {
        channel: {
            "field": "name",
            "type": "nominal",
            "sort": None,
            "scale": {"domain": domain, "range": ranges[channel]},
            "legend": legend,
        }
        for channel in channels
    }


def _parts(chart: Chart) -> Iterator[Spec]:
    looks = _looks(chart)
    for band in chart.bands:
        rows = [_row(x, y=a, y2=b, name=looks[band.name].name) for x, a, b in band.points]
        encoding = {**_xy(chart), "y2": {"field": "y2"}, **_styles(looks, "color")}
        yield {"data": {"values": rows}, "mark": "area", "encoding": encoding}
    for is_line in (True, False):
        other = Style.DOTS if is_line else Style.LINE
        rows = [
            _row(x, y=y, name=looks[one.name].name)
            for one in chart.series
            if one.style is not other
            for x, y in one.points
        ]
        mark = "line" if is_line else {"type": "point", "filled": True, "opacity": 1}
        styles = _styles(looks, "color", "strokeDash" if is_line else "shape")
        yield {"data": {"values": rows}, "mark": mark, "encoding": {**_xy(chart), **styles}}


def _rules(chart: Chart) -> Iterator[Spec]:
    for rule in chart.rules:
        at = moment_text(rule.at) if isinstance(rule.at, datetime) else rule.at
        is_flat = rule.direction is Direction.HORIZONTAL
        axis = chart.y if is_flat else chart.x
        channel = _channel(axis, "at")
        encoding = {"y" if is_flat else "x": channel}
        place: Spec = {"align": "left", "baseline": "bottom", "x": 4, "dy": -3}
        if not is_flat:
            place = {
                "align": "right",
                "baseline": "bottom",
                "angle": 270,
                "y": 4,
                "dx": 0,
                "dy": -3,
            }
        limit = 260 if is_flat else _HEAD_PX
        label = {"type": "text", "color": LIGHT.muted, "limit": limit, **place}
        text = {"text": {"value": plain(rule.label, 80)}}
        yield {
            "data": {"values": [{"at": at}]},
            "encoding": encoding,
            "layer": [
                {"mark": {"type": "rule", "color": LIGHT.muted, "strokeDash": [2, 2]}},
                {"mark": label, "encoding": text},
            ],
        }


def _marks(chart: Chart) -> Iterator[Spec]:
    """Those without a value are above each other at the bottom; a label of one is above it."""
    looks, xy = _looks(chart), _xy(chart)
    stacks: Counter[object] = Counter()
    layers: dict[tuple[str, int], list[Spec]] = {}
    for one in chart.marks:
        # In pixels above the bottom; 0 for one with a value.
        above = 0 if one.y is not None else 10 + 12 * stacks[one.x]
        stacks[one.x] += one.y is None
        named = {"name": looks[one.label].name} if one.label in looks else {}
        layers.setdefault((one.label, above), []).append(_row(one.x, y=one.y, **named))
    for (label, above), rows in layers.items():
        place = {"x": xy["x"], "y": {"value": "height"} if above else xy["y"]}
        mark = {"type": "point", "size": 60, "strokeWidth": 2, "yOffset": -above, "opacity": 1}
        if label in looks:
            styles = _styles(looks, "color", "shape")
            yield {"data": {"values": rows}, "mark": mark, "encoding": place | styles}
            continue
        text = {"type": "text", "dy": -12 - above, "limit": 220, "color": LIGHT.text}
        yield {
            "data": {"values": rows},
            "encoding": place,
            "layer": [
                {"mark": mark | {"shape": "diamond", "color": LIGHT.text}},
                {"mark": text, "encoding": {"text": {"value": plain(label, 60)}}},
            ],
        }


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

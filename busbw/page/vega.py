"""A Chart or a Heatmap as a Vega-Lite specification: Vega lays out axes, ticks, legends and labels.

Decides how a picture looks, never what it shows. Values stand in the specification, so that nothing
is loaded; names are values of it, and never part of an expression.
"""

from __future__ import annotations

import bisect
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
    SERIES,
    Axis,
    Chart,
    Gap,
    Heatmap,
    HeatmapRow,
    Kind,
    Picture,
    Point,
    Position,
    Scale,
)
from .palette import LIGHT, config, several

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
# Of a night's row names need none each.
_ROW_PX, _NAMED_ROW_PX, _LABEL_PX = 12, 16, 60
# Above all points, for the labels of moments.
_HEAD_PX = 130


def specification(picture: Picture, width: int) -> Spec:
    """`width` is that of the whole picture in pixels, from which its height follows."""
    drawn = _heatmap(picture, width) if isinstance(picture, Heatmap) else _chart(picture, width)
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
    """Every layer draws the rows of its own kinds."""
    rows = [_row(one) for one in chart.points if one.has_place and one.kind is not Kind.MARK]
    rows += _marks(chart)
    kinds = {one["kind"] for one in rows}
    head = _HEAD_PX if Kind.MOMENT.value in kinds else 0
    # Below all points, for what has no value, and its names.
    foot = max((one["above"] + 10 for one in rows if one["kind"].endswith("low")), default=0)
    return {
        "width": width,
        # Of what is between the axes.
        "height": max(190, round(0.45 * width)) + head + foot,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": rows},
        "layer": [
            {
                "transform": [{"filter": {"field": "kind", "oneOf": of}}],
                "mark": mark,
                "encoding": at,
            }
            for of, mark, at in _layers(chart, head, foot)
            if "line" in of or kinds.intersection(of)
        ],
    }


def _row(one: Point) -> Spec:
    x = one.x
    place = moment_text(x) if isinstance(x, datetime) else plain(x) if isinstance(x, str) else x
    row = {"kind": one.kind.value, "name": plain(one.name), "x": place, "y": one.y, "y2": one.y2}
    return {name: value for name, value in row.items() if value is not None}


def _marks(chart: Chart) -> Iterator[Spec]:
    """With a sign for each name; those without a value are above each other, their names above all.

    What stands at several points is named at the first.
    """
    marks = chart.of(Kind.MARK)
    low = Counter(one.x for one in marks if one.y is None)
    # How many are there already at each place, and below the next name.
    there = Counter[Position | None]({None: max(low.values(), default=0)})
    places = chart.places(*Kind)
    late = [] if chart.x.scale is Scale.CATEGORY else places[len(places) // 2 :]
    signs: dict[str, str] = {}
    for one in marks:
        kind, is_first = "mark" if one.y is not None else "low", one.name not in signs
        sign = signs.setdefault(one.name, _SIGNS[len(signs) % len(_SIGNS)])
        for name, place in ((kind, one.x), (f"first {kind}", None))[: 1 + is_first]:
            there[place] += one.y is None
            side = "right" if one.x in late else "left"
            at = {"sign": sign, "side": side, "above": 12 * there[place] - 2}
            yield _row(one) | {"kind": name, **at}


def _layers(chart: Chart, head: int, foot: int) -> Iterator[tuple[list[str], Spec, Spec]]:
    """Of each the kinds of its rows, its mark, and its channels."""
    x, y = _channel(chart.x, "x", _ticks(chart)), _channel(chart.y, "y")
    y["scale"] |= {"range": [{"expr": f"height - {foot}"}, head]} if head or foot else {}
    at, looks, text = {"x": x, "y": y}, _looks(chart), {"text": {"field": "name"}}
    muted, dark = {"color": LIGHT["muted"]}, {"color": LIGHT["text"]}
    colour = {"color": looks["color"]}
    label = {"type": "text", "baseline": "bottom", "dy": -3, **muted}
    sign = {"type": "point", "size": 60, "strokeWidth": 2, "opacity": 1, **dark}
    above = {"type": "text", "limit": 220, **dark}
    signs = {"shape": {"field": "sign", "type": "nominal", "scale": None}}
    bottom = {"x": x, "y": {"value": "height"}}
    yield ["band"], {"type": "area"}, {**at, "y2": {"field": "y2"}, **colour}
    dash = {"strokeDash": looks["strokeDash"]}
    yield ["line", "curve"], {"type": "line"}, {**at, **colour, **dash}
    dots = {"type": "point", "filled": True, "opacity": 1}
    yield ["dots", "curve"], dots, {**at, **colour, "shape": looks["shape"]}
    yield ["level"], {"type": "rule", "strokeDash": [2, 2], **muted}, {"y": y}
    yield ["level"], {**label, "align": "left", "x": 4, "limit": 260}, {"y": y, **text}
    yield ["moment"], {"type": "rule", "strokeDash": [2, 2], **muted}, {"x": x}
    turned = {"align": "right", "angle": 270, "y": 4, "limit": _HEAD_PX}
    yield ["moment"], {**label, **turned}, {"x": x, **text}
    yield ["mark"], sign, {**at, **signs}
    yield ["low"], {**sign, "yOffset": {"expr": "-datum.above"}}, {**bottom, **signs}
    yield ["first mark"], {**above, "dy": -12}, {**at, **text}
    named = {**above, "align": {"expr": "datum.side"}, "dy": {"expr": "-datum.above"}}
    yield ["first low"], named, {**bottom, **text}


def _ticks(chart: Chart) -> list[int]:
    """Those of payloads, of which each is a power of two."""
    places = [one.x for one in chart.points if isinstance(one.x, int | float)]
    if not chart.x.is_payload or not places:
        return []
    sizes = list(map(math.log2, places))
    return [2**one for one in range(math.ceil(min(sizes)), math.floor(max(sizes)) + 1)]


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
    parts = {one.name: one for one in (*chart.of(*SERIES), *chart.of(Kind.BAND))}.values()
    groups = list(dict.fromkeys(one.group or one.name for one in parts))
    lines: Counter[str] = Counter()
    looks: dict[str, tuple[str, str, Sequence[int]]] = {}
    for one in parts:
        group, is_band = one.group or one.name, one.kind is Kind.BAND
        at = groups.index(group)
        colours = several(LIGHT, "band" if is_band else "series")
        # Beyond the last colour they begin again, with another symbol.
        shape = "square" if is_band else _SHAPES[(at + at // len(colours)) % len(_SHAPES)]
        shape = "stroke" if one.kind is Kind.LINE else shape
        dash = _DASHES[0 if is_band else lines[group] % len(_DASHES)]
        lines[group] += one.kind in (Kind.CURVE, Kind.LINE)
        looks[plain(one.name)] = colours[at % len(colours)], shape, dash
    channels = zip(*looks.values()) if looks else ((), (), ())
    legend = {"title": None} if len(looks) > 1 else None
    nominal = {"field": "name", "type": "nominal", "sort": None, "legend": legend}
    return {
        channel: {**nominal, "scale": {"domain": list(looks), "range": list(of)}} if looks else {}
        for channel, of in zip(("color", "shape", "strokeDash"), channels)
    }


def _heatmap(heatmap: Heatmap, width: int) -> Spec:
    """Groups of rows below each other; what is alike and next to each other is one rectangle."""
    groups, order = zip(*((plain(one.group), plain(one.label)) for one in heatmap.rows))
    rows = [one for row in heatmap.rows for one in _cells(heatmap, row)]
    y = {"field": "row", "type": "nominal", "sort": list(dict.fromkeys(order)), "title": None}
    x: Spec = {"field": "from", "type": "temporal", "scale": {"type": "utc", "nice": False}}
    x |= {"axis": {"title": None, "tickCount": 6, "orient": "top"}}
    across: Spec = {"x": x, "x2": {"field": "to"}}
    if not heatmap.is_by_night:
        axis = {"title": None, "orient": "top", "labelAngle": 270, "ticks": False}
        names = _borders(heatmap.columns)[:-1]
        across = {"x": {"field": "from", "type": "nominal", "sort": names, "axis": axis}}
    there = {one.get("what") for one in rows}
    shown = {what: of for what, of in _bins(heatmap).items() if what in there or what not in _GAPS}
    scale = {"domain": list(shown), "range": list(shown.values())}
    colour = {"field": "what", "type": "nominal", "title": None, "scale": scale}
    bar = {"type": "tick", "thickness": 2, "color": LIGHT["text"], "opacity": 1}
    header = {"title": None, "labelOrient": "top", "labelAnchor": "start"}
    return {
        "data": {"values": rows},
        "facet": {"row": {"field": "group", "sort": list(dict.fromkeys(groups)), "header": header}},
        "spec": {
            "width": max(120, width - _LABEL_PX - 16),
            "height": {"step": _ROW_PX if heatmap.is_by_night else _NAMED_ROW_PX},
            "layer": [
                {
                    "transform": [{"filter": "isValid(datum.to)"}],
                    "mark": "rect",
                    "encoding": {**across, "y": y, "color": colour},
                },
                {
                    "transform": [{"filter": "!isValid(datum.to)"}],
                    "mark": bar,
                    "encoding": {"x": across["x"], "y": y},
                },
            ],
        },
        "resolve": {"scale": {"y": "independent"}, "axis": {"x": "independent"}},
        "spacing": 4,
    }


def _cells(heatmap: Heatmap, row: HeatmapRow) -> Iterator[Spec]:
    """Those with a reason or a ratio, by night or name, and where a level changed."""
    names, ends = list(_bins(heatmap)), heatmap.ends
    named = {"group": plain(row.group), "row": plain(row.label)}
    what = [
        one.value if isinstance(one, Gap) else names[bisect.bisect(ends, one)] for one in row.cells
    ]
    across = _borders(heatmap.columns)
    # What is alike in nights next to each other is one rectangle; a name has one of its own.
    alike = itertools.groupby(range(len(what)), lambda at: what[at] if heatmap.is_by_night else at)
    for first, *others in (list(one) for _, one in alike):
        if what[first] != Gap.MISSING.value:
            to = across[[first, *others][-1] + 1]
            yield {**named, "from": across[first], "to": to, "what": what[first]}
    for at, _ in row.marks:
        yield {**named, "from": across[at]}


def _borders(columns: Sequence[datetime | str]) -> list[str]:
    """Where each column begins, and where the last one ends."""
    nights = [one for one in columns if isinstance(one, datetime)]
    if not nights:
        return [*(plain(str(one)) for one in columns), ""]
    apart = sorted(after - before for before, after in itertools.pairwise(nights))
    last = nights[-1] + (apart[len(apart) // 2] if apart else timedelta(days=1))
    return [moment_text(one) for one in (*nights, last)]


_GAPS = {
    Gap.OUT_OF_MEMORY.value: LIGHT["muted"],
    Gap.FAILED.value: LIGHT["failed"],
    Gap.INJECTED.value: LIGHT["injected"],
}


def _bins(heatmap: Heatmap) -> dict[str, str]:
    """The colours of bins by their names in the legend, fastest first, and of what has no ratio."""
    ends, count = heatmap.ends, len(heatmap.edges)
    names = [f"below {ends[0]:.2f}"]
    names += [f"{low:.2f} to {high:.2f}" for low, high in itertools.pairwise(ends)]
    names += [f"above {ends[-1]:.2f}"]
    slower, faster = several(LIGHT, "slower")[:count], several(LIGHT, "faster")[:count]
    return dict(zip(names, [*reversed(faster), LIGHT["same"], *slower])) | _GAPS

"""What fits where, and the axes of one chart at one size.

Lengths are in pixels, those of text are estimates.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from busbw.model.limits import moment_text

from ..chart import Axis, Chart, Direction, Mark, Position, Scale

# Sizes of fonts.
TITLE, SMALL = 15, 11

_LONGEST = 200
# A character of text, in pixels, by the size of its font.
_PER_POINT = 0.53
_PER_NARROW, _PER_OTHER, _PER_CAPITAL = 0.32, 0.56, 0.7
_NARROW = frozenset(" .,:;'!|()[]ijl-")
_TICK_PX = 46
_LEGEND_SYMBOL_PX = 34
_STEPS = (1, 2, 4, 5, 10)
_MOST_STEPS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """The width of a picture, from which its height follows."""

    width: int = 720

    @property
    def plot_height(self) -> int:
        """The height without title and legend."""
        return max(240, round(0.52 * self.width))

    @property
    def plot_width(self) -> int:
        return self.width - 70


def plain(text: str, longest: int = _LONGEST) -> str:
    """One line of printable text that XML may hold, of `longest` characters at most."""
    printable = (" " if unicodedata.category(c).startswith(("C", "Z")) else c for c in text)
    line = " ".join("".join(printable).split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def text_px(text: str, font: int) -> float:
    narrow = sum(one in _NARROW for one in text)
    wide = sum(one.isupper() or one == "_" for one in text)
    others = len(text) - narrow - wide
    return font * (_PER_NARROW * narrow + _PER_CAPITAL * wide + _PER_OTHER * others)


def cut(text: str, width: float, *, font: int) -> str:
    line = plain(text)
    while len(line) > 4 and text_px(line, font) > width:
        line = plain(line, len(line) - 1)
    return line


def wrapped(text: str, width: int, *, font: int, most: int) -> list[str]:
    columns = max(12, int(width / (font * _PER_POINT)))
    return textwrap.wrap(plain(text, 600), columns, max_lines=most, placeholder=" ...")


def legend_columns(names: Sequence[str], width: int, *, font: int) -> int:
    longest = max((len(name) for name in names), default=1)
    return max(1, min(len(names), int(width / (longest * font * _PER_POINT + _LEGEND_SYMBOL_PX))))


def unlike(names: Sequence[str]) -> dict[str, str]:
    """Names as they are shown, short and printable, and still all different."""
    shown: dict[str, str] = {}
    for name in names:
        base = text = plain(name, 80) or "(no name)"
        count = 1
        while text in shown.values():
            count += 1
            text = f"{base} ({count})"
        shown[name] = text
    return shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """The two ends of an axis, and where between them a value is."""

    low: float
    high: float
    is_log: bool = False

    @classmethod
    def of(cls, axis: Axis, values: Sequence[float], *, before: float, after: float) -> Range:
        low, high = (min(values), max(values)) if values else (1.0, 10.0)
        if axis.is_log:
            ends = (math.log2(low), math.log2(high))
            span = max(ends[1] - ends[0], 1.0)
            return cls(
                low=2 ** (ends[0] - before * span), high=2 ** (ends[1] + after * span), is_log=True
            )
        if 0 <= low < 0.6 * high:
            low = 0.0
        span = high - low or abs(high) or 1.0
        return cls(low=low if low == 0 else low - before * span, high=high + after * span)

    def at(self, share: float) -> float:
        if self.is_log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + share * (self.high - self.low)

    def share(self, value: float) -> float:
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def ticks(axis: Axis, found: Range, length: int) -> list[float] | None:
    """Powers of two, or 1, 2 and 5 times powers of ten; None leaves it to whoever draws."""
    if axis.scale is Scale.LOG2:
        first, last = math.ceil(math.log2(found.low)), math.floor(math.log2(found.high))
        most = max(2, length // _TICK_PX)
        fitting = [step for step in _STEPS if (last - first) // step < most]
        return [2.0**power for power in range(first, last + 1, fitting[0] if fitting else 20)]
    if axis.scale is Scale.LOG10:
        powers = range(math.floor(math.log10(found.low)), math.ceil(math.log10(found.high)) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            values = [digit * 10.0**power for power in powers for digit in digits]
            inside = [one for one in values if found.low <= one <= found.high]
            if len(inside) <= max(3, length // 32):
                break
        return inside if len(inside) > 2 else _steps(found)
    return None


def _steps(found: Range) -> list[float]:
    """Ticks of a range of less than a decade: steps of 1, 2 or 5 times a power of ten."""
    span = found.high - found.low
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(one * power for one in (1, 2, 5, 10) if span / (one * power) <= _MOST_STEPS)
    first, last = math.ceil(found.low / step), math.floor(found.high / step)
    return [round(count * step, 12) for count in range(first, last + 1)]


def number(x: Position, names: Mapping[Position, int]) -> float:
    """A place along x as a number; a category's is its order."""
    if isinstance(x, datetime):
        return x.timestamp()
    return float(names[x]) if isinstance(x, str) else float(x)


def x_range(chart: Chart) -> Range:
    names = categories(chart)
    values = [number(x, names) for x in chart.all_x]
    found = Range.of(chart.x, values, before=0.03, after=0.05)
    if chart.x.scale is Scale.TIME and values:
        # From zero on, all moments would be at one place.
        return Range(low=min(values), high=max(values) + 1.0)
    return found


def categories(chart: Chart) -> dict[Position, int]:
    names = dict.fromkeys(x for x in chart.all_x if isinstance(x, str))
    return {name: index for index, name in enumerate(names)}


Spec = dict[str, Any]

# 1K is 1024 bytes, and 1G is written 1024M.
_PAYLOAD_TEXT = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + 'M' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~r') + 'K' : format(datum.value, '~r')"
)
_NUMBER_TEXT = "format(datum.value, '~g')"
_DATE_PX, _DATE_GAP_PX = 90, 8
# The longest label of a vertical rule that is written in full.
_MOST_HEAD_PX, _HEAD_GAP_PX = 144.0, 8.0
# Beyond it dates are months, and below it hours are shown.
_MONTHS, _HOURS = timedelta(days=120), timedelta(days=3)


class Plane:
    """One chart at one size, with the ranges of its axes."""

    def __init__(self, chart: Chart, size: Size) -> None:
        self.chart, self.size = chart, size
        self._stacks = _stacks([one for one in chart.marks if one.y is None])
        most = max(self._stacks.values(), default=-1)
        before, after = 0.14 + 0.10 * (most + 1) if most >= 0 else 0.06, 0.06
        values = [float(y) for y in chart.all_y if isinstance(y, int | float)]
        upright = [one for one in chart.rules if one.direction is Direction.VERTICAL]
        lengths = [text_px(plain(one.label), SMALL) + _HEAD_GAP_PX for one in upright]
        # Labels of vertical rules are above everything else.
        self.head_px = min(_MOST_HEAD_PX, max(lengths, default=0.0))
        self.height_px = size.plot_height + self.head_px
        after += self.head_px / size.plot_height * (1 + before + after)
        self._x = x_range(chart)
        self._y = Range.of(chart.y, values, before=before, after=after)
        self._names = categories(chart)
        self._shown_names = unlike([str(one) for one in self._names])

    def row(self, x: Position, **others: Any) -> Spec:
        if isinstance(x, datetime):
            return {"x": moment_text(x), **others}
        return {"x": self._shown_names[x] if isinstance(x, str) else x, **others}

    def xy(self) -> Spec:
        return {
            "x": self._channel(self.chart.x, "x", is_x=True),
            "y": self._channel(self.chart.y, "y", is_x=False),
        }

    def _channel(self, axis: Axis, field: str, *, is_x: bool) -> Spec:
        found = self._x if is_x else self._y
        length = self.size.plot_width if is_x else int(self.height_px)
        shown: Spec = {"title": plain(axis.heading, 60), "grid": True}
        if axis.scale is Scale.CATEGORY:
            order = list(self._shown_names.values())
            widest = max((text_px(one, SMALL) for one in order), default=0.0)
            shown["labelAngle"] = 0 if widest * len(order) < 0.9 * length else 270
            return {"field": field, "type": "nominal", "sort": order, "axis": shown}
        if axis.scale is Scale.TIME:
            shown |= {"format": self._date_form(), "tickCount": max(2, length // _DATE_PX)}
            shown |= {"labelSeparation": _DATE_GAP_PX}
            scale = {"type": "utc", "nice": False}
            return {"field": field, "type": "temporal", "scale": scale, "axis": shown}
        kind: Spec = {"type": "linear", "zero": False}
        if axis.is_log:
            kind = {"type": "log", "base": 2 if axis.scale is Scale.LOG2 else 10}
        values = ticks(axis, found, length)
        shown |= {} if values is None else {"values": values}
        shown["labelExpr"] = _PAYLOAD_TEXT if axis.is_payload else _NUMBER_TEXT
        kind |= {"domain": [found.low, found.high], "nice": False}
        return {"field": field, "type": "quantitative", "scale": kind, "axis": shown}

    def _date_form(self) -> str:
        span = timedelta(seconds=self._x.high - self._x.low)
        if span > _MONTHS:
            return "%Y-%m"
        return "%Y-%m-%d" if span > _HOURS else "%m-%d %H:%M"

    def place_of(self, mark: Mark) -> tuple[float, float]:
        """Where a mark is, in pixels; those without a value above each other at the bottom."""
        if mark.y is not None:
            return self.pixels(mark.x, mark.y)
        return self.x_px(mark.x), (0.035 + 0.10 * self._stacks[mark]) * self.height_px

    def height_of(self, mark: Mark) -> float:
        return self._y.at(self.place_of(mark)[1] / self.height_px)

    def pixels(self, x: Position, y: float) -> tuple[float, float]:
        return self.x_px(x), self.y_px(y)

    def x_px(self, x: Position) -> float:
        return self._x.share(number(x, self._names)) * self.size.plot_width

    def y_px(self, y: float) -> float:
        return self._y.share(y) * self.height_px


def _stacks(marks: Sequence[Mark]) -> dict[Mark, int]:
    counts = Counter[Position]()
    found: dict[Mark, int] = {}
    for one in marks:
        found.setdefault(one, counts[one.x])
        counts[one.x] += 1
    return found

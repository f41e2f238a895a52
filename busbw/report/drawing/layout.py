"""What fits where. Lengths are in pixels, those of text are estimates; knows no format."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..chart import Axis, Chart, Position, Scale

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
    """Width and height of a picture; a height of 0 follows from the width."""

    width: int = 720
    height: int = 0

    @property
    def plot_height(self) -> int:
        """The height without title and legend."""
        return self.height or max(240, round(0.52 * self.width))

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

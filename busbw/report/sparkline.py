"""A case's nights in a cell of a table: a line without axes, as a small SVG.

An ornament next to figures, hidden from screen readers; what it shows is in the table. It has the
classes of charts, whose style sheet the page has, and no text of anybody's.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise

from .drawing.palette import LIGHT
from .nights import CaseNights

# Two units to a pixel, so that coordinates are whole numbers.
_WIDTH, _HEIGHT, _MARGIN = 240, 48, 6
_MOST = 115
_LINE, _DOT = 3, 10
# The least range, as a ratio: noise is not to look like news.
_RANGE = 1.10


def sparkline(case: CaseNights) -> str:
    """Empty without a time; broken where there are none, with dots where the level changed."""
    times_s = case.times_s
    if not times_s:
        return ""
    spark = _Sparkline.of(times_s, len(case.nights))
    dots = "".join(
        f"M{spark.x(spark.bin_of(change.night))},{spark.y(level.level_s)}h0"
        for change, level in zip(case.changes, case.levels[1:])
    )
    return (
        f'<svg class="busbw-chart" width="{_WIDTH // 2}" height="{_HEIGHT // 2}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" fill="none" stroke-linecap="round" aria-hidden="true">'
        f"{_path(spark.line, 'series-1', _LINE)}{_path(dots, 'series-2', _DOT)}</svg>"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sparkline:
    """The median time of each bin of nights that has one, and the range of times that is shown."""

    middles: Mapping[int, float]
    bins: int
    nights: int
    low: float
    high: float

    @classmethod
    def of(cls, times_s: Mapping[int, float], nights: int) -> _Sparkline:
        bins = min(_MOST, nights)
        found: dict[int, list[float]] = {}
        for night, time_s in times_s.items():
            found.setdefault(night * bins // nights, []).append(time_s)
        middles = {at: statistics.median(those) for at, those in found.items()}
        low, high = min(middles.values()), max(middles.values())
        wider = max(1.0, _RANGE * low / high) ** 0.5
        return cls(middles=middles, bins=bins, nights=nights, low=low / wider, high=high * wider)

    @property
    def line(self) -> str:
        runs = groupby(enumerate(self.middles), lambda pair: pair[1] - pair[0])
        return "".join(self._run([at for _, at in those]) for _, those in runs)

    def _run(self, bins: list[int]) -> str:
        points = [(self.x(at), self.y(self.middles[at])) for at in bins]
        steps = (f"{x - a},{y - b}" for (a, b), (x, y) in pairwise(points))
        return f"M{points[0][0]},{points[0][1]}" + (f"l{' '.join(steps)}" if points[1:] else "h0")

    def bin_of(self, night: int) -> int:
        return night * self.bins // self.nights

    def x(self, at: int) -> int:
        return round(_MARGIN + (at + 0.5) / self.bins * (_WIDTH - 2 * _MARGIN))

    def y(self, time_s: float) -> int:
        """Of a time, in units; slower is higher."""
        share = (time_s - self.low) / (self.high - self.low)
        share = min(max(share, 0.0), 1.0)
        return round(_HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN))


def _path(d: str, role: str, thick: int) -> str:
    colour = LIGHT.roles[role]
    look = f'class="stroke-{role}" stroke="{colour}" stroke-width="{thick}"'
    return f'<path {look} d="{d}"/>' if d else ""

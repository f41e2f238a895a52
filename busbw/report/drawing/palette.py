"""The colours of charts by their roles, light and dark, and the looks and settings made of them.

Series have the colours of Okabe and Ito, which readers with any colour vision tell apart, with a
darker sky blue, and brown for their orange and yellow, which a white page hides; the dark theme has
lighter ones. Bins of a heat map are orange where a case is slower and blue where it is faster, and
stand out from the middle the more, the farther they are from it. In a theme no two roles share a
colour, so that a role can be found by its colour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..chart import Band, Chart, Series, Style
from .layout import SMALL, TITLE, unlike


@dataclass(frozen=True, kw_only=True, slots=True)
class Theme:
    """A colour for each role, as six hexadecimal digits."""

    background: str
    text: str
    muted: str
    grid: str
    good: str
    bad: str
    series: tuple[str, ...]
    same: str
    slower: tuple[str, ...]
    faster: tuple[str, ...]
    failed: str

    @property
    def roles(self) -> Mapping[str, str]:
        """Colours by roles; series, and bins of a heat map from its middle on, count from 1."""
        single = ("background", "text", "muted", "grid", "good", "bad", "same", "failed")
        several = {"series": self.series, "band": self.bands}
        several |= {"slower": self.slower, "faster": self.faster}
        return {name: getattr(self, name) for name in single} | {
            f"{name}-{number}": colour
            for name, colours in several.items()
            for number, colour in enumerate(colours, 1)
        }

    @property
    def bands(self) -> tuple[str, ...]:
        """Those of series, mixed with the background, for areas."""
        return tuple(_mixed(one, self.background) for one in self.series)


# The share of a series' colour in that of its bands.
_BAND_SHARE = 0.3


def _mixed(colour: str, background: str) -> str:
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(background[1:]))
    mixed = (round(_BAND_SHARE * one + (1 - _BAND_SHARE) * other) for one, other in pairs)
    return f"#{bytes(mixed).hex()}"


LIGHT = Theme(
    background="#ffffff",
    text="#1f2328",
    muted="#59636e",
    grid="#dfe3e8",
    good="#1a7f37",
    bad="#c11d28",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#3f9fd8", "#6b4c00"),
    same="#e6e9ed",
    slower=("#fdb777", "#f4872f", "#cf4d0a", "#852a05"),
    faster=("#a3c9e8", "#5ba1d6", "#1f6fb5", "#0b3f78"),
    failed="#a3128f",
)
DARK = Theme(
    background="#0d1117",
    text="#e6edf3",
    muted="#9aa4af",
    grid="#2b323b",
    good="#3fb950",
    bad="#ff7b72",
    series=("#58a6e8", "#ff8a4c", "#2fc79a", "#e59cc8", "#a3dcff", "#f2bd3f"),
    same="#252c36",
    slower=("#7a3d12", "#b55a14", "#ee8b3a", "#ffcf9e"),
    faster=("#174a75", "#2173b8", "#55aef2", "#b9e0ff"),
    failed="#ff6fe0",
)
ROLES = tuple(LIGHT.roles)


SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_FONT = "sans-serif"


def config(width: int) -> dict[str, Any]:
    return {
        "font": _FONT,
        "aria": False,
        "view": {"stroke": None},
        "title": {
            "anchor": "start",
            "frame": "bounds",
            "color": LIGHT.text,
            "fontSize": TITLE,
            "subtitleColor": LIGHT.muted,
            "subtitleFontSize": 12,
            "offset": 12,
        },
        "axis": {
            "gridColor": LIGHT.grid,
            "domainColor": LIGHT.muted,
            "tickColor": LIGHT.muted,
            "labelColor": LIGHT.text,
            "titleColor": LIGHT.text,
            "labelFontSize": SMALL,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelOverlap": True,
        },
        "legend": {
            "orient": "bottom",
            "labelColor": LIGHT.text,
            "labelFontSize": SMALL,
            "labelLimit": width - 60,
            "symbolSize": 100,
            "symbolStrokeWidth": 2,
        },
        "text": {"fontSize": SMALL, "font": _FONT},
    }


_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
_DASHES = ((1, 0), (4, 3), (2, 2), (7, 2, 2, 2))
_LINE_SHAPE, _BAND_SHAPE = "stroke", "square"


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """How one series or band is drawn; `name` is as the legend shows it."""

    name: str
    colour: str
    shape: str
    dash: Sequence[int]


def looks_of(chart: Chart) -> dict[str, Look]:
    """A look for each series and band by its name, in the order of the legend: group by group."""
    parts = chart.parts
    names = unlike([one.name for one in parts])
    groups: dict[str, list[Series | Band]] = defaultdict(list)
    for one in parts:
        groups[one.group or one.name].append(one)
    return {
        one.name: _look(one, names[one.name], index, _line(one, of_group))
        for index, of_group in enumerate(groups.values())
        for one in of_group
    }


def _look(one: Series | Band, name: str, group: int, line: int) -> Look:
    number = group % len(LIGHT.series)
    if isinstance(one, Band):
        return Look(name=name, colour=LIGHT.bands[number], shape=_BAND_SHAPE, dash=_DASHES[0])
    # Beyond the last colour they begin again, with another symbol.
    shape = _SHAPES[(group + group // len(LIGHT.series)) % len(_SHAPES)]
    if one.style is Style.LINE:
        shape = _LINE_SHAPE
    dash = _DASHES[line % len(_DASHES)]
    return Look(name=name, colour=LIGHT.series[number], shape=shape, dash=dash)


def _line(one: Series | Band, of_group: Sequence[Series | Band]) -> int:
    lines = [other for other in of_group if isinstance(other, Series)]
    before = lines[: lines.index(one)] if isinstance(one, Series) else []
    return sum(other.style is not Style.DOTS for other in before)

"""The colours of pictures by their roles, light and dark, and Vega's settings made of them.

Series have the colours of Okabe and Ito, which readers with any colour vision tell apart, with a
darker sky blue, and brown for their orange and yellow, which a white page hides; the dark theme has
lighter ones. Bins of a heat map are orange where a case is slower and blue where it is faster, and
stand out from the middle the more, the farther they are from it. In a theme no two roles share a
colour, so that a role can be found by its colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


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
    injected: str

    @property
    def roles(self) -> Mapping[str, str]:
        """Colours by roles; series, and bins of a heat map from its middle on, count from 1."""
        several = {"series": self.series, "band": self.bands}
        several |= {"slower": self.slower, "faster": self.faster}
        single = {one.name for one in fields(self)} - several.keys()
        return {name: getattr(self, name) for name in sorted(single)} | {
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
    injected="#8a7f66",
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
    injected="#b3a78b",
)
_FONT, _SMALL = "sans-serif", 11


def config(*, legend_columns: int) -> dict[str, Any]:
    axis = {"grid": LIGHT.grid, "domain": LIGHT.muted, "tick": LIGHT.muted}
    axis |= {"label": LIGHT.text, "title": LIGHT.text}
    return {
        "font": _FONT,
        "aria": False,
        "view": {"stroke": None},
        "title": {
            "anchor": "start",
            "frame": "bounds",
            "color": LIGHT.text,
            "fontSize": 15,
            "subtitleColor": LIGHT.muted,
            "subtitleFontSize": 12,
            "offset": 12,
        },
        "axis": {
            **{f"{part}Color": colour for part, colour in axis.items()},
            "labelFontSize": _SMALL,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelOverlap": "greedy",
            "labelSeparation": 4,
        },
        "header": {"labelColor": LIGHT.text, "labelFontSize": 12, "labelFontWeight": "bold"},
        "legend": {
            "orient": "bottom",
            "columns": legend_columns,
            "labelColor": LIGHT.text,
            "labelFontSize": _SMALL,
            "labelLimit": 0,
            "symbolSize": 80,
            "symbolStrokeWidth": 2,
        },
        "text": {"fontSize": _SMALL, "font": _FONT},
    }

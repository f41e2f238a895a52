"""The settings that all pictures share: fonts, and the colours of titles, axes and legends."""

from __future__ import annotations

from typing import Any

from .palette import LIGHT

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
TITLE, SMALL = 15, 11
_FONT = "sans-serif"


def config(width: int) -> dict[str, Any]:
    """Vega-Lite's configuration for a picture of this width."""
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

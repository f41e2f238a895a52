"""The settings that all pictures share: fonts, and the colours of titles, axes and legends."""

from __future__ import annotations

from typing import Any

from .palette import Theme

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
TITLE, SMALL = 15, 11
_FONT = "sans-serif"


def config(theme: Theme, width: int) -> dict[str, Any]:
    return {
        "font": _FONT,
        "aria": False,
        "view": {"stroke": None},
        "title": {
            "anchor": "start",
            "frame": "bounds",
            "color": theme.text,
            "fontSize": TITLE,
            "subtitleColor": theme.muted,
            "subtitleFontSize": 12,
            "offset": 12,
        },
        "axis": {
            "gridColor": theme.grid,
            "domainColor": theme.muted,
            "tickColor": theme.muted,
            "labelColor": theme.text,
            "titleColor": theme.text,
            "labelFontSize": SMALL,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelOverlap": True,
        },
        "legend": {
            "orient": "bottom",
            "labelColor": theme.text,
            "labelFontSize": SMALL,
            "labelLimit": width - 60,
            "symbolSize": 100,
            "symbolStrokeWidth": 2,
        },
        "text": {"fontSize": SMALL, "font": _FONT},
    }

"""The colours of pictures by their roles, light and dark, and Vega's settings made of them.

Series have the colours of Okabe and Ito, which readers with any colour vision tell apart, with a
darker sky blue, and brown for their orange and yellow, which a white page hides; the dark theme has
lighter ones. Bins of a heat map are orange where a case is slower and blue where it is faster, and
stand out from the middle the more, the farther they are from it. In a theme no two roles share a
colour, so that a role can be found by its colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

# The colour of each role, as six hexadecimal digits; series, and bins from the middle on, count.
Theme: TypeAlias = "Mapping[str, str]"

_ROLES = {
    "background": ("#ffffff", "#0d1117"),
    "text": ("#1f2328", "#e6edf3"),
    "muted": ("#59636e", "#9aa4af"),
    "grid": ("#dfe3e8", "#2b323b"),
    "good": ("#1a7f37", "#3fb950"),
    "bad": ("#c11d28", "#ff7b72"),
    "failed": ("#a3128f", "#ff6fe0"),
    "injected": ("#8a7f66", "#b3a78b"),
    "same": ("#e6e9ed", "#252c36"),
    "series-1": ("#0072b2", "#58a6e8"),
    "series-2": ("#d55e00", "#ff8a4c"),
    "series-3": ("#009e73", "#2fc79a"),
    "series-4": ("#cc79a7", "#e59cc8"),
    "series-5": ("#3f9fd8", "#a3dcff"),
    "series-6": ("#6b4c00", "#f2bd3f"),
    "slower-1": ("#fdb777", "#7a3d12"),
    "slower-2": ("#f4872f", "#b55a14"),
    "slower-3": ("#cf4d0a", "#ee8b3a"),
    "slower-4": ("#852a05", "#ffcf9e"),
    "faster-1": ("#a3c9e8", "#174a75"),
    "faster-2": ("#5ba1d6", "#2173b8"),
    "faster-3": ("#1f6fb5", "#55aef2"),
    "faster-4": ("#0b3f78", "#b9e0ff"),
}
# The share of a series' colour in that of its bands, which is mixed with the background.
_BAND_SHARE = 0.3


def _theme(of: int) -> Theme:
    theme = {role: colours[of] for role, colours in _ROLES.items()}
    background = bytes.fromhex(theme["background"][1:])
    for at, one in enumerate(several(theme, "series"), 1):
        pairs = zip(bytes.fromhex(one[1:]), background)
        mixed = (round(_BAND_SHARE * a + (1 - _BAND_SHARE) * b) for a, b in pairs)
        theme[f"band-{at}"] = f"#{bytes(mixed).hex()}"
    return theme


def several(theme: Theme, role: str) -> list[str]:
    """The colours of a role that counts."""
    return [colour for name, colour in theme.items() if name.startswith(f"{role}-")]


LIGHT, DARK = _theme(0), _theme(1)
_FONT, _SMALL = "sans-serif", 11


def config(*, legend_columns: int) -> dict[str, Any]:
    axis = {"grid": "grid", "domain": "muted", "tick": "muted", "label": "text", "title": "text"}
    return {
        "font": _FONT,
        "aria": False,
        "view": {"stroke": None},
        "title": {
            "anchor": "start",
            "frame": "bounds",
            "color": LIGHT["text"],
            "fontSize": 15,
            "subtitleColor": LIGHT["muted"],
            "subtitleFontSize": 12,
            "offset": 12,
        },
        "axis": {
            **{f"{part}Color": LIGHT[role] for part, role in axis.items()},
            "labelFontSize": _SMALL,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelOverlap": "greedy",
            "labelSeparation": 4,
        },
        "header": {"labelColor": LIGHT["text"], "labelFontSize": 12, "labelFontWeight": "bold"},
        "legend": {
            "orient": "bottom",
            "columns": legend_columns,
            "labelColor": LIGHT["text"],
            "labelFontSize": _SMALL,
            "labelLimit": 0,
            "symbolSize": 80,
            "symbolStrokeWidth": 2,
        },
        "text": {"fontSize": _SMALL, "font": _FONT},
    }

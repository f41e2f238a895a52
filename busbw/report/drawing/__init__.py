"""A Chart or a Heatmap as a Vega-Lite specification: plain dicts, no library and nothing to load.

Decides how a picture looks, never what it shows. The formats of tables are in `renderers`, where
every file is one.
"""

from __future__ import annotations

from typing import Any

from ..heatmap import Heatmap, Picture
from .heat import heatmap_specification
from .layout import Size, plain
from .palette import DARK, LIGHT, ROLES, THEMES, Theme
from .vega import chart_specification

__all__ = ["DARK", "LIGHT", "ROLES", "THEMES", "Size", "Theme", "plain", "specification"]


def specification(picture: Picture, size: Size, theme: Theme = LIGHT) -> dict[str, Any]:
    if isinstance(picture, Heatmap):
        return heatmap_specification(picture, size, theme)
    return chart_specification(picture, size, theme)

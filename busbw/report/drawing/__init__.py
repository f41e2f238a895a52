"""A Chart or a Heatmap as a Vega-Lite specification: plain dicts, no library and nothing to load.

Decides how a picture looks, never what it shows. The formats of tables are in `renderers`, where
every file is one.
"""

from __future__ import annotations

from typing import Any

from ..chart import Heatmap, Picture
from .heat import heatmap_specification
from .layout import Size
from .vega import chart_specification


def specification(picture: Picture, size: Size) -> dict[str, Any]:
    if isinstance(picture, Heatmap):
        return heatmap_specification(picture, size)
    return chart_specification(picture, size)

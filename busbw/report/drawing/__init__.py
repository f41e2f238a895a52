"""A Chart as a Vega-Lite specification: plain dicts, with no library and nothing to load.

Decides how a chart looks, never what it shows. The formats of tables are in `renderers`, where
every file is one.
"""

from .layout import Size, plain
from .palette import DARK, LIGHT, ROLES, THEMES, Theme
from .vega import specification

__all__ = ["DARK", "LIGHT", "ROLES", "THEMES", "Size", "Theme", "plain", "specification"]

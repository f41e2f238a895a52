"""What can be drawn: values with a picture, made in `drawing`, and a table of the same figures."""

from __future__ import annotations

from typing import TypeAlias

from .chart import Chart, chart_table
from .heatmap import Heatmap, heatmap_table
from .table import Table

Picture: TypeAlias = "Chart | Heatmap"


def table_of(picture: Picture) -> Table:
    return heatmap_table(picture) if isinstance(picture, Heatmap) else chart_table(picture)

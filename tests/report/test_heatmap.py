"""A heat map as a value: its bins, what it refuses, and the table of the same values."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from busbw.report.chart import Gap, Heatmap, HeatmapMark, HeatmapRow, table_of
from busbw.report.renderers import rendered

BEGIN = datetime(2026, 1, 1, 3, tzinfo=timezone.utc)
EDGES = (0.03, 0.06, 0.12, 0.25)


def _row(*cells: float | Gap, **changes: Any) -> HeatmapRow:
    return HeatmapRow(**{"group": "jax", "label": "1K", "cells": cells, **changes})


def _heatmap(*rows: HeatmapRow, nights: int = 2, **changes: Any) -> Heatmap:
    columns = tuple(BEGIN + timedelta(days=at) for at in range(nights))
    return Heatmap(**{"title": "t", "columns": columns, "rows": rows, "edges": EDGES, **changes})


@pytest.mark.parametrize(
    ("ratio", "found"),
    [
        *((1.0, 0), (1.029, 0), (0.972, 0), (1.031, 1), (1 / 1.031, -1), (1.061, 2)),
        *((1.13, 3), (1 / 1.13, -3), (1.26, 4), (0.79, -4), (1e6, 4), (1e-6, -4)),
    ],
)
def test_bins_are_as_far_below_as_above(ratio: float, found: int) -> None:
    assert _heatmap(_row(1.0, 1.0)).bin_of(ratio) == found


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": ()}, "a row and a column"),
        ({"columns": ()}, "a row and a column"),
        ({"rows": (_row(1.0),)}, "'1K' has 1 cells in 2 columns"),
        ({"rows": (_row(1.0, 0.0),)}, "0.0 is no ratio"),
        ({"rows": (_row(1.0, math.inf),)}, "inf is no ratio"),
        ({"rows": (_row(1.0, math.nan),)}, "nan is no ratio"),
        ({"edges": (0.06, 0.03)}, "ascend"),
        ({"edges": (0.0, 0.03)}, "above 0"),
        ({"columns": (BEGIN, BEGIN - timedelta(days=1))}, "order of time"),
        ({"rows": (_row(1.0, 1.0, marks=(HeatmapMark(column=2, text="x"),)),)}, "no column 2"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        _heatmap(_row(1.0, 1.0), **changes)
    assert said in str(refused.value)


def test_of_few_nights_each_is_a_column_with_what_begins_below_its_row() -> None:
    mark = HeatmapMark(column=1, text="+8 % since 2026-01-02")
    table = table_of(_heatmap(_row(1.0, 1.081, marks=(mark,)), _row(Gap.FAILED, Gap.MISSING)))
    assert [one.heading for one in table.columns] == ["case", "2026-01-01", "2026-01-02"]
    assert [table.cells(row) for row in table.rows] == [
        ["jax, 1K", "1.000", "1.081"],
        ["jax, 1K", "FAILED", "-"],
    ]
    assert [note.text for note in table.rows[0].notes] == ["+8 % since 2026-01-02"]
    assert any("OUT_OF" not in line for line in rendered("markdown", table))


@pytest.mark.parametrize(
    ("nights", "first", "count"), [(15, "2026-01", 1), (365, "2026-01", 12), (2000, "2026", 6)]
)
def test_of_many_nights_columns_are_months_or_years(nights: int, first: str, count: int) -> None:
    table = table_of(_heatmap(_row(*[1.0] * nights), nights=nights))
    assert table.columns[1].heading == first
    assert len(table.columns) == 1 + count


def test_two_sessions_of_a_night_are_two_columns() -> None:
    heatmap = _heatmap(_row(1.0, 2.0), columns=(BEGIN, BEGIN))
    assert table_of(heatmap).cells(table_of(heatmap).rows[0]) == ["jax, 1K", "1.000", "2.000"]


def test_a_month_has_the_median_of_its_ratios_or_else_the_most_usual_reason() -> None:
    times = _row(*[1.0] * 10, *[1.3] * 11, *[Gap.OUT_OF_MEMORY] * 10)
    lost = _row(*[Gap.OUT_OF_MEMORY] * 20, *[Gap.FAILED] * 11)
    table = table_of(_heatmap(times, lost, nights=31))
    assert [table.cells(row)[1] for row in table.rows] == ["1.300", "OUT_OF_MEMORY"]

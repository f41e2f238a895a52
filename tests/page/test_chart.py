"""Charts and heat maps as values: what they refuse, and the table of the same values."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from busbw.page.chart import (
    Axis,
    Chart,
    Gap,
    Heatmap,
    HeatmapMark,
    HeatmapRow,
    Mark,
    Rule,
    Scale,
    Series,
    Style,
    described,
    table_of,
)
from busbw.report.renderers import rendered
from tests.report.shown import BUSBW, PAYLOAD, chart

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def test_the_table_has_a_row_for_each_x_and_a_column_for_each_curve_and_end_of_a_band() -> None:
    table = table_of(chart())
    assert [one.id for one in table.columns] == [
        *("payload", "jax", "old", "tf", "unseen, low", "unseen, high")
    ]
    assert [table.cells(row) for row in table.rows] == [
        ["1K", "0.5", "0.6", "0.1", "0.4", "0.6"],
        ["4K", "2", "2.1", "0.3", "1.8", "2.1"],
        ["16K", "6", "-", "OUT_OF_MEMORY", "-", "-"],
    ]


def test_what_is_in_no_cell_is_in_the_notes() -> None:
    table = table_of(chart())
    assert [[note.text for note in row.notes] for row in table.rows] == [
        *([], ["REGRESSED: jax"], [])
    ]
    assert table.notes == ("ceiling: 12 GB/s", "new compiler: 2K")


def test_the_table_can_be_written_in_every_form() -> None:
    assert "| 16K" in "\n".join(rendered("markdown", table_of(chart())))
    assert any("OUT_OF_MEMORY" in line for line in rendered("text", table_of(chart())))


@pytest.mark.parametrize(
    ("axis", "places"),
    [
        (Axis(name="night", scale=Scale.TIME), [MOMENT.replace(day=3), MOMENT]),
        (Axis(name="host", scale=Scale.CATEGORY), ["b", "a"]),
        (Axis(name="sample"), [3.0, -1.0]),
    ],
)
def test_rows_ascend_and_categories_keep_their_order(axis: Axis, places: list[Any]) -> None:
    points = tuple((x, 1.0) for x in places)
    table = table_of(Chart(title="t", x=axis, y=BUSBW, series=(Series(name="s", points=points),)))
    wanted = places if axis.scale is Scale.CATEGORY else sorted(places)
    assert [row.values[axis.name] for row in table.rows] == wanted


def test_a_heading_has_the_unit_but_payloads_have_theirs_in_the_text() -> None:
    assert (PAYLOAD.heading, BUSBW.heading) == ("payload", "busbw (GB/s)")
    assert (PAYLOAD.text(1 << 30), BUSBW.text(0.00123456)) == ("1024M", "0.001235")


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ((), "s: no figure."),
        (((1024, 2.0),), "s: 2 GB/s at 1K."),
        (((1024, 2.0), (2048, 3.0)), "s: 2 GB/s at 1K to 3 GB/s at 2K."),
        (
            ((1024, 2.0), (2048, 9.0), (4096, 3.0)),
            "s: 2 GB/s at 1K to 3 GB/s at 4K, at most 9 GB/s at 2K.",
        ),
    ],
)
def test_a_curve_is_said_by_its_ends_and_its_best(
    points: tuple[tuple[int, float], ...], said: str
) -> None:
    alone = Chart(title="t", x=PAYLOAD, y=BUSBW, series=(Series(name="s", points=points),))
    assert described(alone) == f"t. {said}"


def test_marks_of_a_curve_are_said_and_those_of_others_are_not() -> None:
    marks = [Mark(label="OUT_OF_MEMORY", x=x, series="s") for x in (2048, 4096)]
    marks.append(Mark(label="REGRESSED", x=1024, y=1.0, series="other"))
    of = (Series(name="s", points=((1024, 2.0),)),)
    text = described(Chart(title="t", x=PAYLOAD, y=BUSBW, series=of, marks=tuple(marks)))
    assert text.endswith("s: 2 GB/s at 1K; OUT_OF_MEMORY at 2K, 4K.")


def test_dots_are_said_by_their_least_and_greatest_and_lines_alone_not_at_all() -> None:
    dots = Series(name="s", points=(("b", 3.0), ("a", 1.0), ("c", 2.0)), style=Style.DOTS)
    line = Series(name="limit", points=(("a", 9.0),), style=Style.LINE)
    axis = Axis(name="host", scale=Scale.CATEGORY)
    rule = Rule(label="median", at=2.0)
    found = Chart(title="t", subtitle="u", x=axis, y=BUSBW, series=(dots, line), rules=(rule,))
    assert described(found) == "t. u. s: 1 GB/s at a to 3 GB/s at b. median: 2 GB/s."


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

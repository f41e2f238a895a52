"""A chart as a value: what it refuses, and the table of the same values."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any

import pytest

from busbw.report.chart import Axis, Chart, Mark, Rule, Scale, Series, table_of
from busbw.report.renderers import rendered

from .charted import BUSBW, PAYLOAD, chart

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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"series": (Series(name="s", points=((0, 1.0),)),), "marks": ()}, "above 0, got 0"),
        ({"series": (Series(name="s", points=((8, -1.0),)),), "marks": ()}, "busbw: a logarithmic"),
        ({"rules": (Rule(label="r", at=math.inf),)}, "busbw: inf"),
        ({"rules": (Rule(label="r", at="high"),)}, "'high' has no place on a log10 axis"),
        ({"marks": (Mark(label="m", x=MOMENT),)}, "no place on a log2 axis"),
        ({"marks": (Mark(label="m", x=8, series="none"),)}, "'m' is of no series: 'none'"),
        ({"series": (Series(name="s", points=()),) * 2, "marks": ()}, "'s'"),
        ({"series": (Series(name="payload", points=()),), "marks": ()}, "'payload'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        chart(**changes)
    assert said in str(refused.value)


def test_a_heading_has_the_unit_but_payloads_have_theirs_in_the_text() -> None:
    assert (PAYLOAD.heading, BUSBW.heading) == ("payload", "busbw (GB/s)")
    assert (PAYLOAD.text(1 << 30), BUSBW.text(0.00123456)) == ("1024M", "0.001235")

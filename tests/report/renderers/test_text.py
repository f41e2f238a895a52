"""Tables as text for a terminal."""

from __future__ import annotations

from dataclasses import replace

from busbw.report.renderers.text import render
from busbw.report.table import Column, Table, TextLine, rows_of

from .tables import RED, TABLE


def _texts(table: Table) -> list[str]:
    return [line.text for line in render(table)]


def test_cells_stand_below_headings_and_units_and_notes_below_their_rows() -> None:
    assert _texts(TABLE) == [
        "",
        "a group",
        " payload  median  busbw  outcome",
        "                   GB/s",
        "      4K    1 ms    1.5  PASS",
        "      1M                 FAILED",
        "          a reason",
        "a source",
    ]


def test_title_rows_and_notes_keep_their_markup() -> None:
    marked = {line.text.strip(): line.markup for line in render(TABLE) if line.markup}
    assert marked == {"a group": {"bold": True}, "1M                 FAILED": RED, "a reason": RED}


def test_without_a_title_headings_and_units_there_are_only_rows() -> None:
    table = Table(columns=(Column("name"),), rows=rows_of([{"name": "a"}]))
    assert render(table) == [TextLine("a")]


def test_a_column_that_fits_is_as_wide_as_its_longest_cell_and_others_let_it_stick_out() -> None:
    columns = (Column("name", fits=True, width=2, left=True), Column("count", width=2, gap=2))
    rows = rows_of([{"name": "a", "count": 1}, {"name": "abc", "count": 1000}])
    table = Table(columns=columns, rows=rows, indent=4)
    assert _texts(table) == ["    a     1", "    abc  1000"]
    narrow = (replace(columns[0], fits=False), columns[1])
    assert _texts(replace(table, columns=narrow)) == ["    a    1", "    abc  1000"]


def test_what_is_missing_is_written_as_the_table_says() -> None:
    assert _texts(replace(TABLE, missing="-"))[5] == "      1M       -      -  FAILED"

"""A table as a value."""

from __future__ import annotations

import pytest

from busbw.report.table import (
    Column,
    Row,
    Table,
    attributes,
    explained,
    percent_text,
    rows_of,
    text_table,
)


def test_a_cell_is_the_value_as_its_column_writes_it_and_nothing_for_none() -> None:
    columns = (Column("share", "share", text=percent_text), Column("name", "name"))
    table = Table(columns=columns, rows=(), missing="-")
    assert table.cells(Row({"share": 0.256, "name": None})) == ["26", "-"]


def test_a_row_without_a_value_for_a_column_is_an_error() -> None:
    with pytest.raises(KeyError):
        Table(columns=(Column("share"),), rows=()).cells(Row({"sahre": 1}))


def test_values_that_no_column_shows_are_left_out() -> None:
    assert Table(columns=(Column("a"),), rows=()).cells(Row({"a": 1, "b": 2})) == ["1"]


def test_a_table_of_text_has_its_headings_as_ids() -> None:
    table = text_table(["what", "here"], [["batch", "100"]])
    assert table.cells(table.rows[0]) == ["batch", "100"]
    assert [(column.id, column.heading) for column in table.columns] == [
        ("what", "what"),
        ("here", "here"),
    ]


def test_attributes_of_nothing_are_none() -> None:
    assert attributes(3 + 4j, "real", "imag") == {"real": 3.0, "imag": 4.0}
    assert attributes(None, "real") == {"real": None}


def test_what_explains_several_tables_stands_below_the_last() -> None:
    table = Table(columns=(Column("a"),), rows=rows_of([{"a": 1}]))
    assert [one.notes for one in explained([table, table], ("so",))] == [(), ("so",)]
    assert explained([], ("so",)) == []

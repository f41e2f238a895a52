"""Tables as values, and the forms of a table."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from busbw.report.session import session_tables
from busbw.report.table import (
    Column,
    Row,
    Table,
    attributes_or_none,
    make_rows,
    percent_text,
    render,
    render_text,
)
from tests.helpers import build
from tests.helpers.report_text import RED, TABLE


def test_a_cell_of_a_table_is_its_value_in_the_format_of_the_column_or_a_mark_if_missing() -> None:
    columns = (Column("share", "share", text=percent_text), Column("name", "name"))
    table = Table(columns=columns, rows=(), missing_text="-")
    assert table.cells(Row({"share": 0.256, "name": None})) == ["26", "-"]


def test_a_row_of_a_table_without_a_value_for_a_column_is_an_error() -> None:
    with pytest.raises(KeyError):
        Table(columns=(Column("share"),), rows=()).cells(Row({"sahre": 1}))


def test_a_table_omits_each_value_of_a_row_for_which_the_table_has_no_column() -> None:
    assert Table(columns=(Column("a"),), rows=()).cells(Row({"a": 1, "b": 2})) == ["1"]


def test_every_attribute_of_a_missing_value_is_also_a_missing_value() -> None:
    assert attributes_or_none(3 + 4j, "real", "imag") == {"real": 3.0, "imag": 4.0}
    assert attributes_or_none(None, "real") == {"real": None}


# Each begins as a formula of a spreadsheet does.
FORMULAS = ("=cmd|' /C calc'!A0", "+SUM(1)", "-x", "@SUM(1)", "\t=1")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_in_csv_that_a_spreadsheet_would_take_for_a_formula_is_quoted(text: str) -> None:
    columns = (Column(text), Column("ok"))
    table = Table(columns=columns, rows=make_rows([{text: text, "ok": "a=b"}]))
    written = io.StringIO("\n".join(render("csv", table)), newline="")
    assert list(csv.reader(written)) == [[f"'{text}", "ok"], [f"'{text}", "a=b"]]


def test_a_control_character_is_escaped_in_csv() -> None:
    table = Table(columns=(Column("a"),), rows=make_rows([{"a": "\r=1\x1b"}]))
    assert render("csv", table) == ["a", r"\r=1\x1b"]


def test_negative_numbers_are_not_quoted_in_csv() -> None:
    table = Table(columns=(Column("a"), Column("b")), rows=make_rows([{"a": -1.5, "b": "-2e-05"}]))
    assert render("csv", table) == ["a,b", "-1.5,-2e-05"]


def _texts(table: Table) -> list[str]:
    return [line.text for line in render_text(table)]


def test_a_table_as_text_has_headings_and_units_above_its_cells_and_notes_below_its_rows() -> None:
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


def test_a_table_as_text_keeps_the_markup_in_its_title_and_rows_and_notes() -> None:
    marked = {line.text.strip(): line.markup for line in render_text(TABLE) if line.markup}
    assert marked == {"a group": {"bold": True}, "1M                 FAILED": RED, "a reason": RED}


def test_only_a_column_that_is_declared_to_fit_its_content_is_as_wide_as_its_longest_cell() -> None:
    columns = (
        Column("name", is_fitted_to_cells=True, width=2, left_aligned=True),
        Column("count", width=2, gap=2),
    )
    rows = make_rows([{"name": "a", "count": 1}, {"name": "abc", "count": 1000}])
    table = Table(columns=columns, rows=rows, indent=4)
    assert _texts(table) == ["    a     1", "    abc  1000"]
    narrow = (replace(columns[0], is_fitted_to_cells=False), columns[1])
    assert _texts(replace(table, columns=narrow)) == ["    a    1", "    abc  1000"]


def test_csv_has_raw_values_below_the_names_of_columns_and_quotes_special_characters() -> None:
    table = Table(columns=(Column("a_s"), Column("b")), rows=make_rows([{"a_s": 0.5, "b": 'x,"'}]))
    table = replace(table, rows=(*table.rows, Row({"a_s": None, "b": "y"})))
    assert render("csv", table) == ["a_s,b", '0.5,"x,"""', ",y"]


def test_the_table_of_a_session_has_values_in_seconds_and_bytes() -> None:
    (table,) = session_tables([build.verdict(ratio=1.5)], (), verbose=True)
    row = table.rows[0].values
    assert (row["payload_bytes"], row["best_s"], row["median_s"]) == (4096, 9e-4, 1e-3)
    assert (row["ratio"], row["outcome"]) == (1.5, "PASS")

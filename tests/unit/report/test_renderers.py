"""A session as CSV, which spreadsheets read, too."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from busbw.report.table import (
    Column,
    Row,
    Table,
    make_rows,
    render,
)

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


def test_csv_has_raw_values_below_the_names_of_columns_and_quotes_special_characters() -> None:
    table = Table(columns=(Column("a_s"), Column("b")), rows=make_rows([{"a_s": 0.5, "b": 'x,"'}]))
    table = replace(table, rows=(*table.rows, Row({"a_s": None, "b": "y"})))
    assert render("csv", table) == ["a_s,b", '0.5,"x,"""', ",y"]

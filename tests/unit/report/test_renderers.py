"""A session as CSV, which spreadsheets read, too."""

from __future__ import annotations

import csv
import io

import pytest

from busbw.report.table import (
    Column,
    Table,
    make_rows,
    render,
)


@pytest.mark.parametrize(
    "text",
    # Each begins as a formula of a spreadsheet does.
    ["=cmd|' /C calc'!A0", "+SUM(1)", "-x", "@SUM(1)", "\t=1"],
)
def test_a_text_in_csv_that_a_spreadsheet_would_take_for_a_formula_is_quoted(text: str) -> None:
    columns = (Column(text), Column("ok"))
    table = Table(columns=columns, rows=make_rows([{text: text, "ok": "a=b"}]))
    written = io.StringIO("\n".join(render("csv", table)), newline="")
    assert list(csv.reader(written)) == [[f"'{text}", "ok"], [f"'{text}", "a=b"]]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([{"a_s": 0.5, "b": 'x,"'}, {"a_s": None, "b": "y"}], ["a_s,b", '0.5,"x,"""', ",y"]),
        # Negative numbers are no formulas.
        ([{"a": -1.5, "b": "-2e-05"}], ["a,b", "-1.5,-2e-05"]),
        ([{"a": "\r=1\x1b"}], ["a", r"\r=1\x1b"]),
    ],
    ids=["raw values", "negative numbers", "control characters"],
)
def test_csv_has_raw_values_and_quotes_special_characters_and_escapes_control_characters(
    rows: list[dict[str, object]], lines: list[str]
) -> None:
    assert render("csv", Table(columns=tuple(map(Column, rows[0])), rows=make_rows(rows))) == lines

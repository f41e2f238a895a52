"""Tables in Markdown."""

from __future__ import annotations

from dataclasses import replace

from busbw.report.renderers import rendered

from .tables import TABLE


def test_columns_are_as_wide_as_their_widest_cell_and_units_stand_behind_headings() -> None:
    assert rendered("markdown", replace(TABLE, missing="-")) == [
        "a group",
        "",
        "| payload | median | busbw (GB/s) | outcome |",
        "|--------:|-------:|-------------:|:--------|",
        "|      4K |   1 ms |          1.5 | PASS    |",
        "|      1M |      - |            - | FAILED  |",
        "",
        "- 1M: a reason",
        "a source",
    ]


def test_without_a_title_and_notes_there_is_only_the_table() -> None:
    bare = replace(TABLE, title=None, rows=TABLE.rows[:1], notes=())
    assert [line[0] for line in rendered("markdown", bare)] == ["|"] * 3

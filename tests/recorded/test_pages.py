"""Every recorded session has a page: its results are read back, and nothing in them stops one."""

from __future__ import annotations

import pytest

from busbw import report
from busbw.report import Section
from busbw.report.page.content import Figure, Listing

from .corpus import Recorded, sessions


def _parts(sections: tuple[Section, ...]) -> list[object]:
    return [part for one in sections for part in (*one.parts, *_parts(one.sections))]


@pytest.mark.parametrize("recorded", sessions(), ids=lambda one: one.name)
def test_a_recorded_session_has_a_page_with_all_its_cases(recorded: Recorded) -> None:
    found = report.session_of(recorded.results, recorded.name)
    rows = recorded.results["cases"]
    assert [one.outcome.value for one in found.verdicts] == [row["outcome"] for row in rows]
    assert [one.spec.id for one in found.verdicts] == [row["id"] for row in rows]
    assert [one.text for one in found.verdicts] == [row["text"] for row in rows]
    page = report.page([found])
    parts = _parts(page.sections)
    listed = sum(len(one.table.rows) for one in parts if isinstance(one, Listing))
    assert listed >= len(rows)
    for one in parts:
        if isinstance(one, Figure) and isinstance(one.picture, report.Chart):
            assert report.specification(one.picture, report.Size())["layer"]
            assert one.table.rows

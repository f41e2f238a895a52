"""Every recorded session has a page and a summary: nothing in its results stops one."""

from __future__ import annotations

import pytest

from busbw.model.words import plural
from busbw.page.chart import Chart
from busbw.page.content import Figure, Listing, Section
from busbw.page.page import page as report_page
from busbw.page.summary import summary
from busbw.page.vega import specification
from busbw.report.reading import session_of
from tests.helpers.recorded_sessions import Recorded, sessions


def _parts(sections: tuple[Section, ...]) -> list[object]:
    return [part for one in sections for part in (*one.parts, *_parts(one.sections))]


@pytest.mark.parametrize("recorded", sessions(), ids=lambda one: one.name)
def test_a_recorded_session_has_a_page_with_all_its_cases(recorded: Recorded) -> None:
    found = session_of(recorded.results, recorded.name)
    rows = recorded.results["cases"]
    assert [one.outcome.value for one in found.verdicts] == [row["outcome"] for row in rows]
    assert [one.spec.id for one in found.verdicts] == [row["id"] for row in rows]
    assert [one.text for one in found.verdicts] == [row["text"] for row in rows]
    page = report_page([found])
    parts = _parts(page.sections)
    listed = sum(len(one.table.rows) for one in parts if isinstance(one, Listing))
    assert listed >= len(rows)
    for one in parts:
        if isinstance(one, Figure) and isinstance(one.picture, Chart):
            assert specification(one.picture, 720)["layer"]
            assert one.table.rows
    assert _summed_up(summary(found), recorded)


def _summed_up(text: str, recorded: Recorded) -> bool:
    """Whether the verdict, each case in a table, and how many failed are in the summary."""
    session, cases = recorded.results["session"], recorded.results["cases"]
    failed = sum(one["failed"] for one in cases)
    said = not failed or f"{failed} of {plural(len(cases), 'case')} failed" in text
    return said and session["outcomes"][0] in text and text.count("\n| ") >= len(cases)

"""Every recorded session has a page and a summary: nothing in its results stops one."""

from __future__ import annotations

import re

import pytest

from busbw.extensions.page.page import page as page_of
from busbw.model.words import Outcome, plural
from busbw.report.reading import session_of
from busbw.report.summary import summary
from tests.helpers.recorded_sessions import Recorded, sessions


@pytest.mark.parametrize("recorded", sessions(), ids=lambda recorded: recorded.name)
def test_a_recorded_session_has_a_page_with_all_its_cases(recorded: Recorded) -> None:
    session = session_of(recorded.results, recorded.name)
    rows = recorded.results["cases"]
    assert [verdict.outcome.value for verdict in session.verdicts] == [
        row["outcome"] for row in rows
    ]
    assert [verdict.spec.id for verdict in session.verdicts] == [row["id"] for row in rows]
    assert [verdict.text for verdict in session.verdicts] == [row["text"] for row in rows]
    (chapter,) = page_of([session]).chapters
    assert sum(len(table.rows) for table in chapter.words.tables) >= len(rows)
    figures = [figure for section in chapter.sections for figure in section.figures]
    assert all(figure.table.rows and figure.description for figure in figures)
    text, failed = summary(session), sum(row["failed"] for row in rows)
    assert not failed or f"{failed} of {plural(len(rows), 'case')} failed" in text
    assert recorded.results["session"]["outcomes"][0] in text
    outcomes = re.findall(rf"^ +.*  (?:{'|'.join(Outcome)})\b", text, re.MULTILINE)
    assert len(outcomes) >= len(rows)

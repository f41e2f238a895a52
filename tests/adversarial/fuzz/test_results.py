"""Damaged results, as commands, charts and pages read them."""

from __future__ import annotations

import pytest
from hypothesis import given

from busbw.extensions.page.curves import bandwidth_chart, curves_of
from busbw.extensions.page.page import make_page
from busbw.report.reading import DocumentError, MeasuredSessionRecord, read_results
from tests.helpers.damage import bounded, documents, fuzzed
from tests.helpers.recorded_sessions import Recorded, sessions
from tests.helpers.results_files import document, verdict

altair = pytest.importorskip("altair")


RESULTS = document(
    verdict(4096, 6.0),
    verdict(8192, None),
    verdict(4096, 5.0, framework="tensorflow", strategy="ring"),
)


@fuzzed
@given(content=documents(RESULTS))
def test_any_results_document_is_drawn_as_a_chart_or_refused(content: bytes) -> None:
    with bounded():
        try:
            session = read_results(content, "night.json")
        except DocumentError as error:
            assert str(error).startswith("night.json: ")
            return
        assert isinstance(session, MeasuredSessionRecord)
        try:
            chart = bandwidth_chart(curves_of(session))
        except ValueError as error:
            assert "no bandwidth" in str(error)
            return
        assert chart.table.rows and chart.altair_chart(altair).to_dict()["layer"]


# The shortest of each kind that has launches, or programs.
_RECORDED = sorted(sessions(), key=lambda recorded: len(str(recorded.results)))
_OF_KINDS = [
    next(row for row in _RECORDED if not row.is_compiled and row.results["cases"][0]["launches"]),
    next(row for row in _RECORDED if row.is_compiled and row.results["cases"][0]["program"]),
]


@pytest.mark.parametrize("recorded", _OF_KINDS, ids=lambda recorded: recorded.name)
def test_any_results_document_is_shown_as_a_page_or_refused(recorded: Recorded) -> None:
    @fuzzed
    @given(content=documents(recorded.results))
    def show(content: bytes) -> None:
        with bounded():
            try:
                session = read_results(content, "night.json")
            except DocumentError as error:
                assert str(error).startswith("night.json: ")
                return
            (chapter,) = make_page([session]).chapters
            for section in chapter.sections:
                for chart in section.charts:
                    assert chart.table.rows and chart.altair_chart(altair).to_dict()

    show()

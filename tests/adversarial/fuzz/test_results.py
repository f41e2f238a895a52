"""Damaged results, as commands, charts and pages read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given

from busbw import wire
from busbw.extensions.page.page import make_chapters
from busbw.report.results import read_results
from tests.helpers.damage import bounded, documents, fuzzed
from tests.helpers.recorded_sessions import sessions
from tests.helpers.results_files import document, verdict

altair = pytest.importorskip("altair")


RESULTS = document(
    verdict(4096, 6.0),
    verdict(8192, None),
    verdict(4096, 5.0, framework="tensorflow", strategy="ring"),
)


# The shortest of each kind that has launches, or programs.
_RECORDED = sorted(sessions(), key=lambda recorded: len(str(recorded.results)))
_OF_KINDS = [
    next(
        row.results
        for row in _RECORDED
        if row.is_compiled == is_compiled and row.results["cases"][0][field]
    )
    for is_compiled, field in ((False, "launches"), (True, "program"))
]


@pytest.mark.parametrize("results", [RESULTS, *_OF_KINDS], ids=["made", "measured", "compiled"])
def test_any_results_document_is_shown_as_a_page_or_refused(results: Mapping[str, Any]) -> None:
    @fuzzed
    @given(content=documents(results))
    def show(content: bytes) -> None:
        with bounded():
            try:
                session = read_results(content)
            except wire.WireError:
                return
            (chapter,) = make_chapters([session])
            for section in chapter.sections:
                for chart in section.charts:
                    assert chart.rows and chart.to_altair(altair).to_dict()

    show()

"""Pages of damaged results: a page, or a sentence that says what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given

from busbw.report.chart import Chart
from busbw.report.drawing import specification
from busbw.report.drawing.layout import Size
from busbw.report.page import page
from busbw.report.page.content import Figure, Section
from busbw.report.reading import DocumentError, read_results
from tests.recorded.corpus import Recorded, sessions

from .bounds import bounded, fuzzed
from .damage import documents

# The shortest of each kind that has launches, or programs.
_RECORDED = sorted(sessions(), key=lambda one: len(str(one.results)))
_OF_KINDS = [
    next(one for one in _RECORDED if not one.is_compiled and one.results["cases"][0]["launches"]),
    next(one for one in _RECORDED if one.is_compiled and one.results["cases"][0]["now"]),
]


def _figures(sections: tuple[Section, ...]) -> list[Figure]:
    found = []
    for one in sections:
        found += [part for part in one.parts if isinstance(part, Figure)] + _figures(one.sections)
    return found


@pytest.mark.parametrize("recorded", _OF_KINDS, ids=lambda one: one.name)
def test_any_results_have_a_page_or_are_refused(recorded: Recorded) -> None:
    @fuzzed
    @given(content=documents(recorded.results))
    def shown(content: bytes) -> None:
        with bounded():
            try:
                session = read_results(content, "night.json")
            except DocumentError as error:
                assert str(error).startswith("night.json: ")
                return
            for one in _figures(page([session]).sections):
                assert isinstance(one.picture, Chart)
                assert specification(one.picture, Size())["layer"]

    shown()

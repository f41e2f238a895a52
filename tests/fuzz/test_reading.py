"""Results that are read back for charts: a chart, or a sentence that says what is wrong."""

from __future__ import annotations

from hypothesis import given

from busbw.report.charts.bandwidth import bandwidth
from busbw.report.drawing import specification
from busbw.report.drawing.layout import Size
from busbw.report.heatmap import table_of
from busbw.report.reading import DocumentError, Session, read_results
from tests.report.written import document, verdict

from .bounds import bounded, fuzzed
from .damage import documents

RESULTS = document(
    verdict(4096, 6.0),
    verdict(8192, None),
    verdict(4096, 5.0, framework="tensorflow", strategy="ring"),
)


@fuzzed
@given(content=documents(RESULTS))
def test_any_results_are_drawn_or_refused(content: bytes) -> None:
    with bounded():
        try:
            session = read_results(content, "night.json")
        except DocumentError as error:
            assert str(error).startswith("night.json: ")
            return
        assert isinstance(session, Session)
        try:
            chart = bandwidth([session])
        except ValueError as error:
            assert "no bandwidth" in str(error)
            return
        assert table_of(chart).rows
        assert specification(chart, Size(width=400))["layer"]

"""A figure of a verdict is one declaration: in tables, results, CSV, metrics, JUnit, pages."""

from __future__ import annotations

from busbw import extensions
from busbw.report.figures import TIMED_FIGURES


def test_every_metric_of_a_case_has_a_unique_name() -> None:
    tables = (TIMED_FIGURES, *extensions.load_table("FIGURES").values())
    names = [figure.id for table in tables for figure in table]
    assert len(set(names)) == len(names)

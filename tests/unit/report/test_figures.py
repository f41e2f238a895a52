"""A figure of a verdict is one declaration: in tables, results, CSV, metrics, JUnit, pages."""

from __future__ import annotations

import itertools

from busbw import extensions
from busbw.model.words import Outcome
from busbw.report.figures import TIMED_FIGURES, figure_values
from tests.helpers import build


def test_every_metric_of_a_case_has_a_unique_name() -> None:
    extra = itertools.chain(*extensions.load_table("FIGURES").values())
    names = [figure.id for figure in (*TIMED_FIGURES, *extra)]
    assert len(set(names)) == len(names)


def test_a_case_without_times_has_no_metrics() -> None:
    assert set(figure_values(build.verdict(Outcome.FAILED, now=None)).values()) == {None}

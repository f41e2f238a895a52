"""Intervals of shares agree with SciPy's and with what is known of small counts."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from evidence.intervals import Interval, at_most, bootstrapped, clopper_pearson


@pytest.fixture(scope="module")
def scipy() -> Any:
    """SciPy's statistics, which take a second to import."""
    return importlib.import_module("scipy.stats")


@pytest.mark.parametrize(
    ("found", "among"), [(0, 1), (0, 40), (1, 40), (13, 40), (40, 40), (7, 2000), (1999, 2000)]
)
def test_the_exact_interval_is_scipys(scipy: Any, found: int, among: int) -> None:
    expected = scipy.binomtest(found, among).proportion_ci(confidence_level=0.95, method="exact")
    interval = clopper_pearson(found, among)
    assert interval.lower == pytest.approx(expected.low, abs=1e-9)
    assert interval.upper == pytest.approx(expected.high, abs=1e-9)


def test_no_alarm_in_40_sessions_proves_8_point_8_per_cent() -> None:
    interval = clopper_pearson(0, 40)
    assert interval.lower == 0
    assert interval.upper == pytest.approx(1 - 0.025 ** (1 / 40))
    assert round(interval.upper, 3) == 0.088


@pytest.mark.parametrize(("found", "among"), [(-1, 3), (4, 3)])
def test_what_is_no_share_is_refused(found: int, among: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        clopper_pearson(found, among)


def test_the_tail_of_a_sure_thing_and_of_an_impossible_one() -> None:
    assert at_most(0, 5, share=0.0) == 1
    assert at_most(4, 5, share=1.0) == 0
    assert at_most(5, 5, share=1.0) == 1


def test_the_bootstrap_lies_around_the_pooled_share_and_is_always_the_same() -> None:
    counts = [(one, 10) for one in (2, 5, 8, 5, 4, 6, 5, 5)]
    interval = bootstrapped(counts, seed="1")
    assert 0.3 < interval.lower < 0.5 < interval.upper < 0.7
    assert interval == bootstrapped(counts, seed="1")
    assert interval != bootstrapped(counts, seed="2")


def test_sessions_that_all_agree_count_once_each() -> None:
    assert bootstrapped([(0, 100)] * 5, seed="1") == clopper_pearson(0, 5)
    assert bootstrapped([(100, 100)] * 5, seed="1") == clopper_pearson(5, 5)


def test_sessions_all_or_nothing_vary_with_which_are_drawn() -> None:
    interval = bootstrapped([(0, 10), (10, 10)] * 4, seed="1")
    assert interval.lower < 0.5 < interval.upper
    assert interval != Interval(lower=0, upper=1)

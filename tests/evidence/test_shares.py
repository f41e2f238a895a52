"""Intervals of shares agree with SciPy's and with what is known of small counts."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from evidence.shares import bootstrapped, clopper_pearson, percent, wilson


@pytest.fixture(scope="module")
def scipy() -> Any:
    """SciPy's statistics, which take a second to import."""
    return importlib.import_module("scipy.stats")


@pytest.mark.parametrize(("method", "ours"), [("exact", clopper_pearson), ("wilson", wilson)])
@pytest.mark.parametrize(
    ("found", "among"), [(0, 1), (0, 40), (1, 40), (13, 40), (40, 40), (7, 2000), (1999, 2000)]
)
def test_the_interval_is_scipys(scipy: Any, found: int, among: int, method: str, ours: Any) -> None:
    expected = scipy.binomtest(found, among).proportion_ci(confidence_level=0.95, method=method)
    assert ours(found, among) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_the_bootstrap_lies_around_the_pooled_share_and_is_always_the_same() -> None:
    counts = [(one, 10) for one in (2, 5, 8, 5, 4, 6, 5, 5)]
    lower, upper = bootstrapped(counts, seed="1")
    assert 0.3 < lower < 0.5 < upper < 0.7
    assert (lower, upper) == bootstrapped(counts, seed="1") != bootstrapped(counts, seed="2")


def test_sessions_that_all_agree_count_once_each() -> None:
    assert bootstrapped([(0, 100)] * 5, seed="1") == clopper_pearson(0, 5)
    assert bootstrapped([(100, 100)] * 5, seed="1") == clopper_pearson(5, 5)
    lower, upper = bootstrapped([(0, 10), (10, 10)] * 4, seed="1")
    assert 0 < lower < 0.5 < upper < 1


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0005, "0.05 %"),
        (0.004, "0.4 %"),
        (0.02, "2 %"),
        (0.088, "8.8 %"),
        (0.123, "12 %"),
        (0.9, "90 %"),
        (0.996, "99.6 %"),
        (1, "100 %"),
    ],
)
def test_a_share_has_decimals_near_the_ends_only(share: float, text: str) -> None:
    assert percent(share) == text

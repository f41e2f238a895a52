"""Quantiles, launch times and spread, against figures by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.stats.launches import launch_time_s, quantile, relative_mad
from tests import build

TIMES = st.lists(st.floats(min_value=1e-7, max_value=1e3), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("q", "value"), [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.6, 3.4), (1.0, 5.0)]
)
def test_a_quantile_is_linear_between_order_statistics(q: float, value: float) -> None:
    assert pytest.approx(value) == quantile([5.0, 1.0, 4.0, 2.0, 3.0], q)


@given(TIMES, st.floats(min_value=0, max_value=1))
def test_a_quantile_lies_among_the_values(values: list[float], q: float) -> None:
    found = quantile(values, q)
    assert min(values) <= found or found == pytest.approx(min(values))
    assert found <= max(values) or found == pytest.approx(max(values))


@given(TIMES, st.floats(min_value=0, max_value=1))
def test_the_order_of_the_values_changes_no_quantile(values: list[float], q: float) -> None:
    assert quantile(values, q) == quantile(sorted(values, reverse=True), q)


def test_the_time_of_a_launch_is_the_first_quartile_of_its_samples() -> None:
    assert pytest.approx(2.0) == launch_time_s(build.run(5.0, 1.0, 4.0, 2.0, 3.0))


def test_one_slow_sample_does_not_move_the_time_of_a_launch() -> None:
    calm = launch_time_s(build.run(1.0, 1.0, 1.0, 1.0, 1.0))
    assert calm == launch_time_s(build.run(1.0, 1.0, 1.0, 1.0, 100.0))


def test_one_lucky_sample_is_not_the_time_of_a_launch() -> None:
    assert launch_time_s(build.run(0.1, 1.0, 1.0, 1.0, 1.0)) > 0.9


def test_the_time_of_a_launch_with_one_sample_is_that_sample() -> None:
    assert launch_time_s(build.run(3e-3)) == 3e-3


def test_the_spread_is_the_scaled_median_deviation_over_the_median() -> None:
    # median 10; deviations 2, 1, 0, 1, 5, of which the median is 1
    assert pytest.approx(0.14826) == relative_mad([8.0, 9.0, 10.0, 11.0, 15.0])


def test_a_single_time_has_no_spread() -> None:
    assert relative_mad([1e-3]) == 0


@given(TIMES, st.floats(min_value=0.01, max_value=100))
def test_the_spread_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    scaled = [factor * value for value in values]
    assert relative_mad(values) == pytest.approx(relative_mad(scaled), rel=1e-6, abs=1e-9)

"""Quantiles, spread, Student's t and what a few launches say of a mean, against figures by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw import stats
from busbw.stats import Estimate, of_launches, shift_of_samples

from . import build

TIMES = st.lists(st.floats(min_value=1e-7, max_value=1e3), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("q", "value"), [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.6, 3.4), (1.0, 5.0)]
)
def test_a_quantile_is_linear_between_order_statistics(q: float, value: float) -> None:
    assert pytest.approx(value) == stats.quantile([5.0, 1.0, 4.0, 2.0, 3.0], q)


@given(TIMES, st.floats(min_value=0, max_value=1))
def test_a_quantile_lies_among_the_values(values: list[float], q: float) -> None:
    found = stats.quantile(values, q)
    assert min(values) <= found or found == pytest.approx(min(values))
    assert found <= max(values) or found == pytest.approx(max(values))


@given(TIMES, st.floats(min_value=0, max_value=1))
def test_the_order_of_the_values_changes_no_quantile(values: list[float], q: float) -> None:
    assert stats.quantile(values, q) == stats.quantile(sorted(values, reverse=True), q)


def test_the_time_of_a_launch_is_the_first_quartile_of_its_samples() -> None:
    assert pytest.approx(2.0) == stats.launch_time_s(build.run(5.0, 1.0, 4.0, 2.0, 3.0))


def test_one_slow_sample_does_not_move_the_time_of_a_launch() -> None:
    calm = stats.launch_time_s(build.run(1.0, 1.0, 1.0, 1.0, 1.0))
    assert calm == stats.launch_time_s(build.run(1.0, 1.0, 1.0, 1.0, 100.0))


def test_one_lucky_sample_is_not_the_time_of_a_launch() -> None:
    assert stats.launch_time_s(build.run(0.1, 1.0, 1.0, 1.0, 1.0)) > 0.9


def test_the_time_of_a_launch_with_one_sample_is_that_sample() -> None:
    assert stats.launch_time_s(build.run(3e-3)) == 3e-3


def test_the_spread_is_the_scaled_median_deviation_over_the_median() -> None:
    # median 10; deviations 2, 1, 0, 1, 5, of which the median is 1
    assert pytest.approx(0.14826) == stats.relative_mad([8.0, 9.0, 10.0, 11.0, 15.0])


def test_a_single_time_has_no_spread() -> None:
    assert stats.relative_mad([1e-3]) == 0


@given(TIMES, st.floats(min_value=0.01, max_value=100))
def test_the_spread_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    scaled = [factor * value for value in values]
    assert stats.relative_mad(values) == pytest.approx(
        stats.relative_mad(scaled), rel=1e-6, abs=1e-9
    )


def test_the_estimate_of_launches_is_student_s_own() -> None:
    found = of_launches([1.0, 2.0, 3.0, 4.0])
    assert (found.mean, found.freedom) == (2.5, 3)
    assert found.error == pytest.approx(math.sqrt(5 / 3) / 2)


def test_a_bound_is_so_many_errors_from_the_mean_on_its_side() -> None:
    found = Estimate(mean=1.0, error=0.1, freedom=5)
    assert found.lower(0.05) == pytest.approx(1 - 0.201504837)
    assert found.upper(0.05) == pytest.approx(1 + 0.201504837)


def test_fewer_launches_know_less() -> None:
    few = Estimate(mean=0.0, error=0.1, freedom=2)
    many = Estimate(mean=0.0, error=0.1, freedom=20)
    assert few.upper(0.01) > many.upper(0.01)


def test_launches_that_do_not_differ_leave_no_doubt() -> None:
    assert of_launches([0.1, 0.1, 0.1]).lower(1e-6) == pytest.approx(0.1)


def test_a_launch_that_is_slower_in_every_sample_is_shifted_by_just_that() -> None:
    before = [1.0, 1.2, 0.9, 1.1]
    assert shift_of_samples(before, [1.1 * s for s in before]) == pytest.approx(math.log(1.1))


def test_a_drift_that_hits_both_sides_cancels() -> None:
    drift = [1.0, 1.5, 2.0, 4.0, 3.0]
    assert shift_of_samples(drift, [1.05 * s for s in drift]) == pytest.approx(math.log(1.05))


def test_a_stalled_sample_hardly_moves_the_shift() -> None:
    before = [1.0] * 12
    after = [1.02, 1.0, 0.98] * 4
    stalled = [*after[:-1], 50.0]
    assert abs(shift_of_samples(before, stalled) - shift_of_samples(before, after)) < 0.01


def test_launches_of_unequal_length_are_compared_all_with_all() -> None:
    assert shift_of_samples([1.0, 1.0], [2.0, 2.0, 90.0]) == pytest.approx(math.log(2))


def test_the_shift_back_is_the_same_the_other_way() -> None:
    one, other = [1.0, 1.3, 0.8], [1.1, 1.2, 1.4]
    assert shift_of_samples(one, other) == pytest.approx(-shift_of_samples(other, one))


# scipy.stats.t.isf(level, freedom), scipy 1.17
QUANTILES = [
    (1, 0.25, 1.0),
    (1, 0.0002, 1591.54922),
    (2, 0.05, 2.91998558),
    (3.5, 0.005, 5.08570222),
    (5, 0.25, 0.726686844),
    (5, 0.0002, 8.36341799),
    (8, 0.05, 1.85954804),
    (30, 0.005, 2.74999565),
    (1000, 0.0002, 3.55209662),
]
# scipy.stats.t.sf(value, freedom)
TAILS = [
    (0.5, 1, 0.35241638234956674),
    (2.0, 2, 0.09175170953613698),
    (3.0, 5, 0.015049623948731293),
    (1.5, 4.5, 0.10010954282807676),
    (6, 8, 0.00016169661094257446),
    (0.1, 30, 0.4605048058951356),
    (-1.0, 3, 0.8044988905221148),
]


@pytest.mark.parametrize(("freedom", "level", "value"), QUANTILES)
def test_quantiles_are_those_of_scipy(freedom: float, level: float, value: float) -> None:
    assert stats.t_quantile(level, freedom) == pytest.approx(value, rel=2e-6)


@pytest.mark.parametrize(("value", "freedom", "level"), TAILS)
def test_tails_are_those_of_scipy(value: float, freedom: float, level: float) -> None:
    assert stats.t_tail(value, freedom) == pytest.approx(level, rel=1e-9)


@pytest.mark.parametrize("freedom", [1, 2.5, 7, 100])
def test_half_lies_above_nothing_and_the_halves_mirror_each_other(freedom: float) -> None:
    assert stats.t_tail(0.0, freedom) == pytest.approx(0.5)
    assert stats.t_quantile(0.5, freedom) == pytest.approx(0.0, abs=2e-6)
    assert stats.t_quantile(0.9, freedom) == -stats.t_quantile(0.1, freedom)


@settings(deadline=None)
@given(st.floats(min_value=1e-5, max_value=0.5), st.floats(min_value=1, max_value=200))
def test_a_quantile_is_what_its_tail_says(level: float, freedom: float) -> None:
    assert stats.t_tail(stats.t_quantile(level, freedom), freedom) == pytest.approx(level, rel=1e-4)


@settings(deadline=None)
@given(st.floats(min_value=0, max_value=50), st.floats(min_value=0.01, max_value=10))
def test_further_out_lies_less(value: float, further: float) -> None:
    assert stats.t_tail(value + further, 4) < stats.t_tail(value, 4)

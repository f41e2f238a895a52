"""Quantiles, launch times, spread, means, and the levels of looks, against known figures."""

from __future__ import annotations

import math
import random

import pytest

from busbw.stats.launches import (
    MeanEstimate,
    estimate_mean,
    launch_time_s,
    log_ratio_of_samples,
    look_significance_levels,
    quantile,
    robust_stddev,
    spent_error_fraction,
    t_quantile,
)
from tests.helpers import build


@pytest.mark.parametrize(
    ("q", "value"), [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.6, 3.4), (1.0, 5.0)]
)
def test_a_quantile_is_interpolated_linearly_between_order_statistics(
    q: float, value: float
) -> None:
    assert pytest.approx(value) == quantile([5.0, 1.0, 4.0, 2.0, 3.0], q)


def test_the_time_of_a_run_is_the_first_quartile_of_its_samples() -> None:
    assert pytest.approx(2.0) == launch_time_s(build.run(5.0, 1.0, 4.0, 2.0, 3.0))


def test_the_robust_standard_deviation_is_the_scaled_median_deviation_from_the_median() -> None:
    # median 10; deviations 2, 1, 0, 1, 5, of which the median is 1
    assert pytest.approx(1.4826) == robust_stddev([8.0, 9.0, 10.0, 11.0, 15.0])


def test_the_estimated_mean_has_the_error_of_student_s_distribution() -> None:
    estimate = estimate_mean([1.0, 2.0, 3.0, 4.0])
    assert (estimate.mean, estimate.degrees_of_freedom) == (2.5, 3)
    assert estimate.standard_error == pytest.approx(math.sqrt(5 / 3) / 2)


def test_the_confidence_bounds_of_an_estimate_are_the_bounds_of_student_s_distribution() -> None:
    estimate = MeanEstimate(mean=1.0, standard_error=0.1, degrees_of_freedom=5)
    assert estimate.lower_bound(0.05) == pytest.approx(1 - 0.201504837)
    assert estimate.upper_bound(0.05) == pytest.approx(1 + 0.201504837)


def test_a_common_drift_of_the_samples_of_two_stacks_cancels_in_their_ratio() -> None:
    drift = [1.0, 1.5, 2.0, 4.0, 3.0]
    assert log_ratio_of_samples(drift, [1.05 * s for s in drift]) == pytest.approx(math.log(1.05))


def test_a_stalled_sample_changes_the_ratio_of_two_stacks_by_less_than_1_percent() -> None:
    before = [1.0] * 12
    after = [1.02, 1.0, 0.98] * 4
    stalled = [*after[:-1], 50.0]
    assert abs(log_ratio_of_samples(before, stalled) - log_ratio_of_samples(before, after)) < 0.01


def test_the_ratio_of_launches_with_different_numbers_of_samples_compares_all_samples() -> None:
    assert log_ratio_of_samples([1.0, 1.0], [2.0, 2.0, 90.0]) == pytest.approx(math.log(2))


SHAPES = (-4.0, -1.0, 0.0, 1.0, 3.0)


def _bounds(counts: tuple[int, ...], rate: float, shape: float) -> list[float]:
    """Return the levels of decisions as bounds in standard deviations."""
    return [t_quantile(level, math.inf) for level in look_significance_levels(counts, rate, shape)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_fraction_of_the_error_rate_used_by_sequential_decisions_grows_from_0_to_1(
    shape: float,
) -> None:
    shares = [spent_error_fraction(tenths / 10, shape) for tenths in range(11)]
    assert shares[0] == 0 and shares[-1] == pytest.approx(1)
    assert shares == sorted(set(shares))


def test_a_larger_shape_parameter_spends_more_of_the_error_rate_in_the_first_half() -> None:
    halves = [spent_error_fraction(0.5, shape) for shape in SHAPES]
    assert halves == sorted(set(halves))
    assert spent_error_fraction(0.5, 0) == 0.5


# K. M. Anderson, the R package gsDesign: gsDesign(k = 3, alpha = 0.025, sfu = sfHSD, sfupar = -4).
def test_the_bounds_of_sequential_decisions_equal_the_bounds_of_gsdesign() -> None:
    assert _bounds((1, 2, 3), 0.025, -4.0) == pytest.approx([3.0107, 2.5465, 1.9992], abs=2e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_sequential_decision_has_a_smaller_error_rate_than_all_decisions_together(
    shape: float,
) -> None:
    levels = look_significance_levels((6, 9, 12, 16, 21, 28, 37, 49), 0.001, shape)
    assert max(levels) < 0.001 < sum(levels)


@pytest.mark.parametrize("shape", (0.0, 1.0))
def test_simulated_normal_sums_cross_a_bound_of_sequential_decisions_at_the_error_rate(
    shape: float,
) -> None:
    counts, rate, draws = (2, 3, 5, 9), 0.1, 4000
    bounds = _bounds(counts, rate, shape)
    chance = random.Random(20260104)
    crossed = 0
    for _ in range(draws):
        values = [chance.gauss(0.0, 1.0) for _ in range(counts[-1])]
        crossed += any(
            sum(values[:count]) > bound * math.sqrt(count) for count, bound in zip(counts, bounds)
        )
    assert crossed / draws == pytest.approx(rate, abs=3 * math.sqrt(rate * (1 - rate) / draws))

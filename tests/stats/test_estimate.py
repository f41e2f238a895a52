"""What a few launches say of a mean, and by how much two launches differ."""

from __future__ import annotations

import math

import pytest

from busbw.stats.launches import Estimate, of_launches, shift_of_samples


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

"""The positions of changes in series whose steps are known."""

from __future__ import annotations

import random

import pytest

from busbw.stats.change_points import MeanChange, find_mean_changes
from busbw.stats.launches import Variance


def series(*levels: tuple[int, float], seed: int = 1) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(level, 1.0) for count, level in levels for _ in range(count)]


def find(values: list[float]) -> tuple[MeanChange, ...]:
    return find_mean_changes(values, Variance(value=1.0, degrees_of_freedom=200))


def steps(values: list[float]) -> list[int]:
    return [change.position for change in find(values)]


def test_a_series_without_a_change_has_no_change_point() -> None:
    assert all(not find(series((365, 0.0), seed=seed)) for seed in range(30))


def test_the_position_and_the_size_of_a_step_in_a_series_are_found() -> None:
    for seed in range(30):
        (change,) = find(series((20, 0.0), (10, 5.0), seed=seed))
        assert abs(change.position - 20) <= 1
        assert change.size == pytest.approx(5.0, abs=1.5)
        assert change.value_count == 30 - change.position


def test_two_steps_of_a_series_are_found_in_order() -> None:
    first, second = steps(series((30, 0.0), (30, 6.0), (30, 1.0)))
    assert abs(first - 30) <= 1 and abs(second - 60) <= 1


def test_a_step_of_a_series_is_found_only_if_three_values_follow_the_step() -> None:
    assert steps([0.0] * 10 + [100.0] * 2) == []
    assert steps([0.0] * 10 + [100.0] * 3) == [10]


@pytest.mark.parametrize("position", [0, 1, 5, 10, 18, 19])
def test_a_single_outlier_in_a_series_is_no_step(position: int) -> None:
    values = series((20, 0.0))
    values[position] += 60
    assert steps(values) == []


def test_a_single_outlier_in_a_series_does_not_hide_a_step() -> None:
    values = series((20, 0.0), (10, 5.0))
    values[7] += 60
    (position,) = steps(values)
    assert abs(position - 20) <= 1

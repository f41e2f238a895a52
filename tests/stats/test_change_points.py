"""Where a level changes, in series with known changes."""

from __future__ import annotations

import random

import pytest

from busbw.stats import change_points


def series(*levels: tuple[int, float], seed: int = 1, deviation: float = 1.0) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(level, deviation) for count, level in levels for _ in range(count)]


def found(values: list[float], threshold: float = 5.0) -> tuple[int, ...]:
    return change_points(values, 1.0, threshold=threshold, least=3)


def test_a_series_without_a_change_has_no_change_point() -> None:
    assert all(not found(series((365, 0.0), seed=seed)) for seed in range(30))


def test_a_step_is_found_where_it_is() -> None:
    hits = [found(series((20, 0.0), (10, 5.0), seed=seed)) for seed in range(30)]
    assert all(len(one) == 1 and abs(one[0] - 20) <= 1 for one in hits)


def test_several_steps_are_found_in_order() -> None:
    (first, second) = found(series((30, 0.0), (30, 6.0), (30, 1.0)))
    assert abs(first - 30) <= 1 and abs(second - 60) <= 1


def test_a_level_has_so_many_values_at_least() -> None:
    assert found([0.0] * 10 + [100.0] * 2) == ()
    assert found([0.0] * 10 + [100.0] * 3) == (10,)


@pytest.mark.parametrize("at", [0, 1, 5, 10, 18, 19])
def test_a_single_odd_value_is_no_level(at: int) -> None:
    values = series((20, 0.0))
    values[at] += 60
    assert found(values) == ()


def test_an_odd_value_hides_no_step() -> None:
    values = series((20, 0.0), (10, 5.0))
    values[7] += 60
    (one,) = found(values)
    assert abs(one - 20) <= 1


def test_too_few_values_have_no_change_point() -> None:
    assert found([0.0, 100.0, 0.0, 100.0, 0.0]) == ()

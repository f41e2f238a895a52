"""The time of a launch, from its samples."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.worker.sampling import launch_time_s


@pytest.mark.parametrize(
    ("samples_s", "time_s"),
    [
        ((1.0, 2.0), 1.25),
        ((5.0, 1.0, 3.0, 2.0, 4.0), 2.0),
        ((1.0, 1.0, 1.0, 1.0, 900.0), 1.0),
        ((4.0, 3.0, 2.0, 1.0), 1.75),
    ],
)
def test_the_time_of_a_launch_is_the_p25_of_its_samples(
    samples_s: tuple[float, ...], time_s: float
) -> None:
    assert launch_time_s(samples_s) == time_s


@given(st.lists(st.floats(min_value=1e-9, max_value=1e3), min_size=2, max_size=30))
def test_the_time_of_a_launch_lies_between_its_best_and_its_median(samples_s: list[float]) -> None:
    assert min(samples_s) <= launch_time_s(samples_s) * (1 + 1e-12)
    assert launch_time_s(samples_s) <= statistics.median(samples_s) * (1 + 1e-12)


def test_the_time_of_a_launch_with_one_sample_is_that_sample() -> None:
    assert launch_time_s((3.0,)) == 3.0

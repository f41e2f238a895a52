"""The sequential test: how often it errs, with any distribution of noise."""

from __future__ import annotations

import math
import random

import pytest

from busbw.extensions.stragglers.statistics import SequentialTest


def _decided(draw: object, seed: int, risk: float = 0.01) -> SequentialTest:
    chance = random.Random(seed)
    test = SequentialTest(
        name="host a",
        hosts=("a",),
        quantity="latency",
        min_loss=0.05,
        false_alarm_probability=risk,
    )
    assert callable(draw)
    while test.is_open and len(test.excesses) < 10_000:
        test.add_round(draw(chance))
    return test


@pytest.mark.parametrize(
    "draw",
    [
        lambda chance: math.log(1.05) + chance.gauss(0, 0.1),
        lambda chance: math.log(1.05) + chance.choice((-1, 1)) * chance.paretovariate(0.5),
        lambda chance: chance.gauss(0, 5),
    ],
    ids=["at the limit", "without a mean", "nothing but noise"],
)
def test_the_sequential_test_names_at_most_about_one_of_a_hundred_healthy_candidates(
    draw: object,
) -> None:
    named = sum(_decided(draw, seed).is_confirmed for seed in range(2000))
    # Of 2000 with 1 %, more than 33 have a chance of 0.2 %.
    assert named <= 33


def test_the_sequential_test_names_a_slow_candidate_after_nine_measurements() -> None:
    trials = [_decided(lambda chance: 0.4 + chance.gauss(0, 0.05), seed) for seed in range(200)]
    assert all(test.is_confirmed and len(test.excesses) == 9 for test in trials)
    for slow in [test.make_measured_component() for test in trials]:
        assert 1.4 < slow.ratio < 1.6
        assert slow.p < 0.01


def test_the_sequential_test_decides_that_a_candidate_is_healthy_after_three_measurements() -> None:
    test = _decided(lambda chance: 0.0, 1)
    test.add_round(1.0)
    assert (test.is_confirmed, test.is_open, len(test.excesses)) == (False, False, 3)

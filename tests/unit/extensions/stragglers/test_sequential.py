"""The sequential test: how often it errs, whatever the noise looks like."""

from __future__ import annotations

import math
import random

import pytest

from busbw.extensions.stragglers.sequential import SequentialTest


def _decided(draw: object, seed: int, risk: float = 0.01) -> SequentialTest:
    chance, test = random.Random(seed), SequentialTest(least=0.05, risk=risk)
    assert callable(draw)
    while test.is_open and len(test.excesses) < 10_000:
        test.add(draw(chance))
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
def test_who_is_not_slower_than_the_least_is_accused_once_in_a_hundred_times(draw: object) -> None:
    accused = sum(_decided(draw, seed).is_guilty for seed in range(2000))
    # Of 2000 with 1 %, more than 33 have a chance of 0.2 %.
    assert accused <= 33


def test_who_is_slow_is_accused_by_a_few_rounds() -> None:
    trials = [_decided(lambda chance: 0.4 + chance.gauss(0, 0.05), seed) for seed in range(200)]
    assert all(one.is_guilty and len(one.excesses) == 9 for one in trials)
    assert all(1.4 < one.ratio < 1.6 and one.p < 0.01 for one in trials)


def test_who_is_not_is_acquitted_by_three_rounds() -> None:
    test = _decided(lambda chance: 0.0, 1)
    assert (test.is_guilty, test.is_open, len(test.excesses)) == (False, False, 3)


def test_nothing_counts_after_the_end() -> None:
    test = _decided(lambda chance: 1.0, 1)
    evidence = test.evidence
    test.add(-1.0)
    assert (test.evidence, test.is_guilty) == (evidence, True)


def test_one_of_which_nothing_is_known_has_no_ratio() -> None:
    test = SequentialTest(least=0.05, risk=0.01)
    assert math.isnan(test.ratio)
    assert (test.p, test.is_open, test.is_guilty) == (1.0, True, False)

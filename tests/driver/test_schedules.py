"""One pass over the cases: its order, and what a case costs."""

from __future__ import annotations

import random

import pytest

from busbw.driver.schedules import LARGE_BYTES, bytes_of, cost, shuffled
from busbw.model.case import Case
from tests import build
from tests.driver.workers import case

SMALL = [case(2**power) for power in range(4, 20)]
LARGE = [case(2**power) for power in (28, 29, 30)]


def _ordered(cases: list[Case], *, seed: int = 0, large_first: bool = False) -> list[Case]:
    return shuffled(cases, random.Random(seed), large_first=large_first)


def test_the_same_seed_gives_the_same_order_and_another_one_another() -> None:
    assert _ordered(SMALL, seed=1) == _ordered(SMALL, seed=1) != _ordered(SMALL, seed=2)


@pytest.mark.parametrize("large_first", [True, False])
def test_every_case_is_there_once_and_what_was_given_stays_as_it_was(large_first: bool) -> None:
    cases = [*LARGE, *SMALL]
    ordered = _ordered(cases, large_first=large_first)
    assert sorted(ordered, key=bytes_of) == sorted(cases, key=bytes_of)
    assert cases == [*LARGE, *SMALL]


@pytest.mark.parametrize("seed", range(5))
def test_large_cases_stand_together_at_one_end_the_largest_outermost(seed: int) -> None:
    cases = [*LARGE, *SMALL]
    assert _ordered(cases, seed=seed, large_first=True)[:3] == LARGE[::-1]
    assert _ordered(cases, seed=seed, large_first=False)[-3:] == LARGE


def test_large_is_what_all_ranks_hold_together() -> None:
    assert bytes_of(case(2**28)) == LARGE_BYTES
    assert bytes_of(build.case(payload_bytes=10, ranks=7)) == 70


def test_much_of_what_a_case_costs_is_fixed_and_the_rest_goes_with_its_bytes() -> None:
    small, middle, large = (cost(case(size)) for size in (4, 2**20, 2**30))
    assert small < middle < 1.1 * small
    assert large > 10 * small

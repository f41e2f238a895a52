"""Bisection over a row of releases, some of which cannot be tested."""

from __future__ import annotations

import math
import random

import pytest

from busbw.extensions.bisect.search import Bisection, Shown, every


def _run(count: int, first: int, dead: set[int] = frozenset()) -> tuple[Bisection, list[int]]:  # type: ignore[assignment]
    asked: list[int] = []

    def test(at: int) -> Shown:
        asked.append(at)
        if at in dead:
            return Shown.UNTESTABLE
        return Shown.BAD if at >= first else Shown.GOOD

    known = {0: Shown.GOOD, count - 1: Shown.BAD}
    return Bisection(count=count, test=test, known=known), asked


@pytest.mark.parametrize("count", [2, 3, 8, 64, 65])
def test_the_first_bad_one_is_found_in_as_many_steps_as_halves(count: int) -> None:
    for first in range(1, count):
        bisection, asked = _run(count, first)
        span = bisection.run()
        assert (span.last_good, span.first_bad, span.between) == (first - 1, first, ())
        assert len(asked) <= math.ceil(math.log2(count))


def test_those_that_cannot_be_tested_are_stepped_around() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        first = chance.randrange(1, 64)
        dead = {at for at in range(1, 63) if chance.random() < 0.4}
        bisection, asked = _run(64, first, dead)
        span = bisection.run()
        assert span.last_good < first <= span.first_bad
        assert set(span.between) <= dead
        assert len(asked) == len(set(asked)) <= 6 + len(dead)


def test_where_nothing_between_can_be_tested_all_of_it_is_the_answer() -> None:
    bisection, _ = _run(5, 2, {1, 2, 3})
    span = bisection.run()
    assert (span.last_good, span.first_bad, span.between) == (0, 4, (1, 2, 3))


def test_what_is_known_is_not_asked_again() -> None:
    bisection, asked = _run(64, 40)
    bisection.known |= {31: Shown.GOOD, 47: Shown.BAD}
    assert bisection.run().first_bad == 40
    assert not {31, 47}.intersection(asked)


def test_every_step_is_from_the_last_one_that_could_be_tested() -> None:
    level = {0: 1, 1: 1, 2: 2, 4: 2, 5: 1}

    def test(before: int, now: int) -> Shown:
        if now not in level:
            return Shown.UNTESTABLE
        return Shown.BAD if level[before] != level[now] else Shown.GOOD

    assert every(range(6), test) == [(1, 2), (4, 5)]

"""The search of a sequence of releases, some of which cannot be tested."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence

import pytest

from busbw.extensions.bisect.bisection import search_releases
from busbw.extensions.bisect.sessions import Status


def _search(
    count: int, first: int, untestable: Collection[int] = ()
) -> tuple[Sequence[str], list[str]]:
    """Search `count` releases, which are bad from number `first` on."""
    tested: list[str] = []

    def test(release: str) -> Status:
        tested.append(release)
        if int(release) in untestable:
            return Status.UNTESTABLE
        return Status.BAD if int(release) >= first else Status.GOOD

    return search_releases([str(number) for number in range(count)], test), tested


@pytest.mark.parametrize("count", [2, 3, 8, 64, 65])
def test_a_bisection_tests_at_most_the_binary_logarithm_of_the_number_of_releases(
    count: int,
) -> None:
    for first in range(1, count):
        span, tested = _search(count, first)
        assert span == [str(first - 1), str(first)]
        assert len(tested) <= math.ceil(math.log2(count))


def test_a_bisection_tests_a_neighbour_of_a_release_that_cannot_be_tested() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        first = chance.randrange(1, 64)
        untestable = {number for number in range(1, 63) if chance.random() < 0.4}
        span, tested = _search(64, first, untestable)
        assert int(span[0]) < first <= int(span[-1])
        assert set(map(int, span[1:-1])) <= untestable
        assert len(tested) == len(set(tested)) <= 6 + len(untestable)


def test_the_result_of_a_bisection_lists_all_untestable_releases_before_the_bad_release() -> None:
    span, _ = _search(5, 2, {1, 2, 3})
    assert span == ["0", "1", "2", "3", "4"]

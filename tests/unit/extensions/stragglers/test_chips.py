"""Which of many chips is slow, and which link between two."""

from __future__ import annotations

import random

import pytest

from busbw.extensions.stragglers.chips import slow_chips
from busbw.model.launch import Chips

ROUNDS = 50


def _row(chance: random.Random, ratio: float = 1.0) -> tuple[float, ...]:
    return tuple(0.02 * ratio * chance.lognormvariate(0, 0.01) for _ in range(ROUNDS))


def _found(
    *, computing: dict[int, float] | None = None, link: tuple[str, int] | None = None, seed: int = 1
) -> list[Chips]:
    """Of two hosts with four chips each, in a ring; those that are slow, and the link to one."""
    chance = random.Random(seed)
    pairs = {
        "x+": tuple((rank, (rank + 1) % 8) for rank in range(8)),
        "x-": tuple((rank, (rank - 1) % 8) for rank in range(8)),
    }
    found = []
    for first in (0, 4):
        ranks = range(first, first + 4)
        found.append(
            Chips(
                ranks=tuple(ranks),
                compute_s=tuple(_row(chance, (computing or {}).get(rank, 1.0)) for rank in ranks),
                copy_s=tuple(_row(chance) for _ in ranks),
                links_s={
                    way: tuple(_row(chance, 1.5 if (way, r) == link else 1.0) for r in ranks)
                    for way in pairs
                },
                pairs=pairs,
            )
        )
    return found


def test_a_chip_that_throttles_is_named_with_its_host() -> None:
    (one,) = slow_chips(_found(computing={6: 1.12}), ["a", "b"], 0.05, 0.01)
    assert (one.what, one.host, one.quantity) == ("chip 6 of host b", "b", "computing")
    assert one.ratio == pytest.approx(1.12, rel=0.01)


def test_a_link_that_is_slow_one_way_is_named_that_way() -> None:
    (one,) = slow_chips(_found(link=("x-", 3)), ["a", "b"], 0.05, 0.01)
    assert one.what == "chip 4 of host b to chip 3 of host a"
    assert one.quantity == "the link x-"
    assert one.ratio == pytest.approx(1.5, rel=0.01)


def test_the_slowest_comes_first() -> None:
    found = slow_chips(_found(computing={1: 1.2, 5: 1.6}), ["a", "b"], 0.05, 0.01)
    assert [one.what for one in found] == ["chip 5 of host b", "chip 1 of host a"]


def test_where_all_are_alike_nobody_is_named() -> None:
    assert not [seed for seed in range(100) if slow_chips(_found(seed=seed), "ab", 0.05, 0.01)]


def test_of_two_chips_nobody_knows_which_is_slow() -> None:
    chance = random.Random(1)
    rows = (_row(chance), _row(chance, 2.0))
    assert slow_chips([Chips(ranks=(0, 1), compute_s=rows, copy_s=rows)], ["a"], 0.05, 0.01) == []

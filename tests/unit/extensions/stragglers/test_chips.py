"""Slow chips, and slow links between two chips."""

from __future__ import annotations

import random

import pytest

from busbw.extensions.stragglers.statistics import MeasuredComponent, find_deviating_chips

ROUNDS = 50


def _row(chance: random.Random, ratio: float = 1.0) -> tuple[float, ...]:
    return tuple(0.02 * ratio * chance.lognormvariate(0, 0.01) for _ in range(ROUNDS))


def _slow(
    *, computing: dict[int, float] | None = None, link: tuple[str, int] | None = None, seed: int = 1
) -> list[MeasuredComponent]:
    """Search two hosts with a ring of eight chips, with slow chips or a slow link to a chip."""
    chance = random.Random(seed)
    pairs = {
        "x+": tuple((rank, (rank + 1) % 8) for rank in range(8)),
        "x-": tuple((rank, (rank - 1) % 8) for rank in range(8)),
    }
    chips = [
        {
            "computing": {str(r): _row(chance, (computing or {}).get(r, 1.0)) for r in ranks},
            "copying": {str(rank): _row(chance) for rank in ranks},
            **{
                f"the link {way}": {
                    f"{sender} {rank}": _row(chance, 1.5 if (way, rank) == link else 1.0)
                    for sender, rank in senders
                    if rank in ranks
                }
                for way, senders in pairs.items()
            },
        }
        for ranks in (range(4), range(4, 8))
    ]
    slow, losses = find_deviating_chips(chips, ["a", "b"], 0.05, 0.01)
    assert list(losses) == ["computing", "copying", "the link x+", "the link x-"]
    return slow


def test_slow_chips_are_named_with_their_hosts_and_the_slowest_chip_is_first() -> None:
    first, second = _slow(computing={1: 1.12, 5: 1.6})
    assert (first.name, first.hosts, first.quantity) == ("chip 5 of host b", ("b",), "computing")
    # All tests of chips and links, 8 in each of four quantities, share the risk of 1 %.
    assert (second.name, second.p < 0.01 / 32) == ("chip 1 of host a", True)
    assert second.ratio == pytest.approx(1.12, rel=0.01)


def test_a_link_between_chips_that_is_slow_in_one_direction_is_named_in_that_direction() -> None:
    (slow,) = _slow(link=("x-", 3))
    assert slow.name == "chip 4 of host b to chip 3 of host a"
    assert slow.quantity == "the link x-"
    assert slow.ratio == pytest.approx(1.5, rel=0.01)


def test_no_chip_is_named_as_slow_if_all_chips_are_equally_fast() -> None:
    assert not [seed for seed in range(100) if _slow(seed=seed)]


def test_no_chip_is_named_as_slow_if_only_two_chips_were_measured() -> None:
    chance = random.Random(1)
    rows = {"0": _row(chance), "1": _row(chance, 2.0)}
    chips = {"computing": rows, "copying": rows}
    assert find_deviating_chips([chips], ["a"], 0.05, 0.01) == ([], {})


def test_a_chip_is_reported_as_fast_if_most_of_the_other_chips_are_slow() -> None:
    (fast,) = _slow(computing=dict.fromkeys(range(1, 8), 10.0))
    assert (fast.name, fast.quantity) == ("chip 0 of host a", "computing")
    assert fast.ratio == pytest.approx(0.1, rel=0.05)

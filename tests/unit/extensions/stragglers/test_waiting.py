"""Who comes last, and what is waiting, what transfer, by clocks that are not set alike."""

from __future__ import annotations

import random

import pytest

from busbw.extensions.stragglers.waiting import Waiting, waiting
from busbw.model.launch import Arrivals

TRANSFER_S = 0.01


def _found(
    own_s: list[float], *, rounds: int = 50, offsets_s: list[float] | None = None, seed: int = 1
) -> Waiting:
    """Of processes whose own work between two collectives takes so long, with a tenth of noise."""
    chance = random.Random(seed)
    at_s = [0.0] * len(own_s)
    came: list[list[float]] = [[] for _ in own_s]
    left: list[list[float]] = [[] for _ in own_s]
    for _ in range(rounds):
        arrived = [at + own * chance.uniform(0.9, 1.1) for at, own in zip(at_s, own_s)]
        end_s = max(arrived) + TRANSFER_S
        at_s = [end_s + chance.uniform(0, 1e-5) for _ in own_s]
        for process, off in enumerate(offsets_s or [0.0] * len(own_s)):
            came[process].append(arrived[process] + 100 + off)
            left[process].append(at_s[process] + 100 + off)
    rows = [Arrivals(came_s=tuple(c), left_s=tuple(d)) for c, d in zip(came, left)]
    return waiting(rows, range(len(own_s)))


def test_who_takes_longer_for_its_own_comes_last_and_the_others_wait() -> None:
    found = _found([0.01, 0.01, 0.014, 0.01], offsets_s=[0.0, 3.0, -2.0, 50.0])
    assert (found.last, found.times, found.rounds) == (2, 50, 50)
    assert found.late_s == pytest.approx(0.004, rel=0.1)
    assert found.transfer_s == pytest.approx(TRANSFER_S, rel=0.05)
    assert found.waited_s[2] == 0
    assert found.waited_s[0] == pytest.approx(0.004, rel=0.1)
    assert found.offset_s == pytest.approx(50.0, abs=1e-4)
    assert found.error_s < 1e-5
    assert found.is_late(0.01, 0.05)


def test_where_all_are_alike_nobody_is_late() -> None:
    assert not any(_found([0.01] * 8, seed=seed).is_late(0.01, 0.05) for seed in range(100))


def test_one_that_is_always_last_by_next_to_nothing_is_not_late() -> None:
    found = _found([0.0001, 0.0001, 0.00013, 0.0001])
    assert found.last == 2
    assert not found.is_late(0.01, 0.05)


def test_two_processes_on_each_host_are_of_their_host() -> None:
    rows = [Arrivals(came_s=(1.0 + late,), left_s=(2.0,)) for late in (0.0, 0.0, 0.1, 0.5)]
    assert waiting(rows, [4, 7]).last == 7


def test_unlike_numbers_of_rounds_are_an_error() -> None:
    rows = [Arrivals(came_s=(1.0,) * count, left_s=(2.0,) * count) for count in (3, 4)]
    with pytest.raises(ValueError, match="unlike numbers"):
        waiting(rows, [0, 1])

"""Rounds of groups that share no host."""

from __future__ import annotations

import itertools
import random

import pytest

from busbw.extensions.stragglers.rounds import pairings, partitions


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 31, 32])
def test_every_two_hosts_meet_once_and_nobody_twice_in_a_round(count: int) -> None:
    rounds = pairings(range(count))
    met = sorted(pair for one in rounds for pair in one)
    assert met == list(itertools.combinations(range(count), 2))
    for one in rounds:
        hosts = [host for pair in one for host in pair]
        assert len(set(hosts)) == len(hosts)
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)


@pytest.mark.parametrize(("count", "size"), [(64, 8), (100, 12), (1024, 16)])
def test_groups_share_out_all_hosts_anew_in_every_round(count: int, size: int) -> None:
    rounds = partitions(range(count), size, 3, random.Random(1))
    for one in rounds:
        assert sorted(host for group in one for host in group) == list(range(count))
        assert {len(group) for group in one} <= {size, size + 1}
    assert len({frozenset(one) for one in rounds}) == 3

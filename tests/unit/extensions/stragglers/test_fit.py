"""Times as host + host + link."""

from __future__ import annotations

import itertools
import math

import pytest

from busbw.extensions.stragglers import fit
from busbw.extensions.stragglers.rounds import Group


def _times(
    count: int, hosts: dict[int, float], links: dict[Group, float] | None = None
) -> dict[Group, float]:
    """Seconds of all pairs, 1 of good ones; each a little off, by its hosts."""
    found: dict[Group, float] = {}
    for group in itertools.combinations(range(count), 2):
        slow = max(*(hosts.get(host, 1.0) for host in group), (links or {}).get(group, 1.0))
        found[group] = slow * (1 + 1e-3 * (sum(group) % 5))
    return found


@pytest.mark.parametrize("count", [4, 5, 8, 9])
def test_a_slow_host_is_slow_with_everybody_and_makes_nobody_else_slow(count: int) -> None:
    found = fit.of_pairs(_times(count, {1: 2.0}))
    assert math.exp(found.hosts[1]) == pytest.approx(2.0, rel=0.01)
    assert max(abs(log) for host, log in found.hosts.items() if host != 1) < 0.01
    assert max(map(abs, found.links.values())) < 0.01
    assert found.spread < 0.01


@pytest.mark.parametrize("count", [4, 5, 8, 9])
def test_a_slow_link_is_of_neither_of_its_hosts(count: int) -> None:
    found = fit.of_pairs(_times(count, {}, {(1, 3): 3.0}))
    assert max(map(abs, found.hosts.values())) < 0.01
    assert math.exp(found.links[1, 3]) == pytest.approx(3.0, rel=0.01)
    assert max(abs(log) for link, log in found.links.items() if link != (1, 3)) < 0.01


def test_several_slow_hosts_and_a_slow_link_are_told_apart() -> None:
    found = fit.of_pairs(_times(8, {0: 1.5, 5: 2.0}, {(2, 3): 1.8}))
    ratios = [round(math.exp(found.hosts[host]), 1) for host in range(8)]
    assert ratios == [1.5, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0]
    assert max(found.links, key=lambda one: found.links[one]) == (2, 3)


def test_groups_stand_for_their_hosts() -> None:
    rounds: list[dict[Group, float]] = [
        {(0, 1): 1.0, (2, 3): 2.0, (4, 5): 1.0},
        {(0, 2): 2.0, (1, 4): 1.0, (3, 5): 1.0},
        {(0, 5): 1.0, (2, 4): 2.0, (1, 3): 1.0},
    ]
    found = fit.of_groups(rounds)
    assert {host for host, log in found.hosts.items() if log > 0.1} == {2}


@pytest.mark.parametrize("far", [frozenset({0, 1, 2, 3}), frozenset({1, 6})])
def test_hosts_of_two_racks_are_told_apart(far: frozenset[int]) -> None:
    times_s = {
        group: time_s * (1 if len(far.intersection(group)) != 1 else 2 + group[0] % 3)
        for group, time_s in _times(8, {}).items()
    }
    found = fit.racks(times_s, 0.2)
    assert found is not None
    assert {frozenset(one) for one in found.hosts} == {far, frozenset(range(8)) - far}
    assert found.between((1, 5)) is (1 in far)
    assert 2 <= found.ratio <= 4


def test_half_of_the_hosts_that_are_slow_with_everybody_are_no_rack() -> None:
    found = fit.racks(_times(8, dict.fromkeys((1, 3, 5, 7), 1.5)), 0.2)
    assert found is not None
    assert found.hosts == ((0, 2, 4, 6), (1,), (3,), (5,), (7,))


def test_pairs_of_one_round_that_was_faster_are_no_racks() -> None:
    fast = dict.fromkeys([(0, 6), (1, 3), (2, 5), (4, 7)], 0.5)
    assert fit.racks(_times(8, {}) | fast, 0.2) is None


@pytest.mark.parametrize("count", [4, 8])
def test_where_all_is_alike_there_are_no_racks(count: int) -> None:
    assert fit.racks(_times(count, {}), 0.2) is None
    assert fit.racks(_times(count, {}, {(0, 1): 5.0}), 0.2) is None

"""Times as host + host + link, and racks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import pytest

from busbw.extensions.stragglers.fit import find_racks, fit_groups, fit_pairs
from busbw.extensions.stragglers.liveness import Group


def _times(
    count: int, hosts: Mapping[int, float] | None = None, links: Mapping[Group, float] | None = None
) -> dict[Group, float]:
    """Return the seconds of all pairs, about 1 of healthy ones."""
    times_s: dict[Group, float] = {}
    for first, second in itertools.combinations(range(count), 2):
        group = (str(first), str(second))
        ratios = [(hosts or {}).get(host, 1.0) for host in (first, second)]
        ratio = max(*ratios, (links or {}).get(group, 1.0))
        times_s[group] = ratio * (1 + 1e-3 * ((first + second) % 5))
    return times_s


@pytest.mark.parametrize("count", [4, 5, 8, 9])
def test_a_slow_host_makes_no_other_slow(count: int) -> None:
    fit = fit_pairs(_times(count, {1: 2.0}))
    assert math.exp(fit.hosts["1"]) == pytest.approx(2.0, rel=0.01)
    assert max(abs(log) for host, log in fit.hosts.items() if host != "1") < 0.01
    assert max(map(abs, fit.links.values())) < 0.01
    assert fit.spread < 0.01


@pytest.mark.parametrize("count", [4, 5, 8, 9])
def test_a_slow_link_makes_neither_of_its_hosts_slow(count: int) -> None:
    fit = fit_pairs(_times(count, links={("1", "3"): 3.0}))
    assert max(map(abs, fit.hosts.values())) < 0.01
    assert math.exp(fit.links["1", "3"]) == pytest.approx(3.0, rel=0.01)
    assert max(abs(log) for link, log in fit.links.items() if link != ("1", "3")) < 0.01


def test_the_host_whose_group_is_slow_in_every_round_is_slow() -> None:
    rounds: list[dict[Group, float]] = [
        {("0", "1"): 1.0, ("2", "3"): 2.0, ("4", "5"): 1.0},
        {("0", "2"): 2.0, ("1", "4"): 1.0, ("3", "5"): 1.0},
        {("0", "5"): 1.0, ("2", "4"): 2.0, ("1", "3"): 1.0},
    ]
    assert {host for host, log in fit_groups(rounds).hosts.items() if log > 0.1} == {"2"}


@pytest.mark.parametrize("far", ["0123", "16"])
def test_hosts_of_two_racks_are_told_apart(far: str) -> None:
    times_s = {
        group: time_s * (1 if len({*far}.intersection(group)) != 1 else 2 + int(group[0]) % 3)
        for group, time_s in _times(8).items()
    }
    racks = find_racks(times_s, 0.2)
    assert racks is not None
    assert {frozenset(hosts) for hosts in racks.hosts} == {
        frozenset(far),
        frozenset("01234567") - {*far},
    }
    assert racks.between(("1", "5")) is ("1" in far)
    assert 2 <= racks.ratio <= 4


def test_half_of_the_hosts_that_are_slow_with_all_others_are_no_rack() -> None:
    racks = find_racks(_times(8, dict.fromkeys((1, 3, 5, 7), 1.5)), 0.2)
    assert racks is not None
    assert racks.hosts == (("0", "2", "4", "6"), ("1",), ("3",), ("5",), ("7",))


@pytest.mark.parametrize(
    "times_s",
    [
        _times(8) | dict.fromkeys([("0", "6"), ("1", "3"), ("2", "5"), ("4", "7")], 0.5),
        _times(4),
        _times(8, links={("0", "1"): 5.0}),
    ],
    ids=["a fast round", "four hosts", "a slow link"],
)
def test_hosts_that_are_alike_have_no_racks(times_s: Mapping[Group, float]) -> None:
    assert find_racks(times_s, 0.2) is None

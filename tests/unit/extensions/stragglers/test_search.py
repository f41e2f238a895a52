"""The search on simulated clusters: which hosts and links it names, and in how many rounds."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from busbw.driver.transport import HostError
from busbw.extensions.stragglers.groups import (
    HostGroup,
    Round,
    TimesByQuantity,
    rounds_of_groups,
    rounds_of_pairs,
)
from busbw.extensions.stragglers.statistics import fit_excesses_of_pairs
from tests.unit.extensions.stragglers.simulated_cluster import Cluster, search, slow_groups


@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "heavy tails"])
@pytest.mark.parametrize("count", [4, 8, 64, 256])
def test_find_slow_names_no_host_of_a_healthy_cluster(count: int, heavy: bool) -> None:
    result = search(Cluster(noise=0.05, heavy=heavy), count)
    assert result.is_healthy
    assert (result.slow, result.undecided, result.racks, result.unreachable) == ((), (), {}, ())
    assert all(0.05 < loss < 0.2 for loss in result.detectable.values())


@pytest.mark.parametrize("count", [4, 5, 8, 16, 64, 256])
def test_find_slow_names_a_slow_host_with_its_ratio(count: int) -> None:
    cluster = Cluster(noise=0.02, hosts={3: 0.5}, heavy=True)
    result = search(cluster, count)
    assert slow_groups(result) == {(3,)}
    for slow in result.slow:
        assert slow.ratio == pytest.approx(1.5, rel=0.05)
        # The host is tested in two quantities at least, which share half of the risk of 1 %.
        assert slow.p < 0.005 / 2 / 0.95
    assert len(cluster.rounds) < (count if count < 64 else 12) + 20


@pytest.mark.parametrize("count", [4, 8, 16])
def test_find_slow_names_a_slow_link_and_neither_of_its_hosts(count: int) -> None:
    assert slow_groups(search(Cluster(noise=0.02, links={(1, 3): 1.0}), count)) == {(1, 3)}


def test_find_slow_finds_a_slow_link_among_many_candidates_that_it_lists_as_cleared() -> None:
    """Let many candidates share few hosts to compare with."""
    ratios: list[float] = []
    for seed in range(5):
        cluster = Cluster(noise=0.15, links={(4, 5): 2.0}, seed=seed)
        result = search(cluster, 8, seed=seed)
        assert (slow_groups(result), result.undecided) == ({(4, 5)}, ())
        ratios += [candidate.ratio for candidate in result.cleared]
    assert len(ratios) > 5 and max(ratios) < 1.3


@pytest.mark.parametrize(("host", "seed"), [(8, 5), (7, 8), (11, 34)])
def test_find_slow_names_no_link_of_an_undecided_host_that_is_slightly_slow(
    host: int, seed: int
) -> None:
    """Name no link of a slow host: its links are slow, too, but the host is the cause."""
    cluster = Cluster(noise=0.05, hosts={host: 0.1}, heavy=True, seed=seed)
    result = search(cluster, 16, seed=seed)
    assert slow_groups(result) <= {(host,)}
    assert all(name.startswith("host ") for name in result.undecided)


@pytest.mark.parametrize(
    ("count", "slow_count"), [(4, 2), (5, 3), (6, 4), (8, 5), (8, 6), (16, 10), (64, 32), (64, 40)]
)
def test_find_slow_says_that_hosts_fall_into_two_groups_if_half_or_most_hosts_are_slow(
    count: int, slow_count: int
) -> None:
    for noise in (0.02, 0.1):
        result = search(Cluster(noise=noise, hosts=dict.fromkeys(range(slow_count), 9.0)), count)
        assert not result.is_healthy
        for fast in result.fast:
            assert min(map(int, fast.hosts)) >= slow_count
            assert fast.ratio == pytest.approx(0.1, rel=0.3)
        assert result.fast or result.slow


def test_find_slow_reports_no_fast_link_if_each_host_has_a_fast_link() -> None:
    """Let four hosts be in two racks, which are too few hosts to find racks."""
    far = {(a, b): 1.0 for a in (0, 1) for b in (2, 3)}
    result = search(Cluster(noise=0.02, links=far), 4)
    assert result.fast == ()


def test_find_slow_reports_no_fast_link_in_healthy_clusters_with_much_noise() -> None:
    for count, seed in itertools.product((4, 8), range(60)):
        cluster = Cluster(noise=0.15, heavy=True, seed=seed)
        assert search(cluster, count, seed=seed).fast == ()


def test_find_slow_claims_no_loss_that_a_host_or_link_shows_without_being_reported() -> None:
    for seed in range(20):
        result = search(Cluster(noise=0.15, heavy=True, seed=seed), 12, seed=seed)
        tested = {(c.hosts, c.quantity) for c in (*result.slow, *result.cleared)}
        for cleared in result.cleared:
            name = cleared.quantity + (" of a link" if len(cleared.hosts) == 2 else "")
            assert cleared.ratio < 1 + result.detectable[name]
            assert cleared.rounds >= 3 and cleared.control_pairs
        # Slow links between racks have a sentence of their own.
        for quantity in result.ratios.keys() - result.racks.keys():
            for host, ratio in result.ratios[quantity].items():
                loss = result.detectable[quantity]
                assert ((host,), quantity) in tested or ratio <= 1 + loss + 1e-9
            pairs = {(*pair.split(", "),): times[quantity] for pair, times in result.times.items()}
            for link, excess in fit_excesses_of_pairs(pairs).link_excesses.items():
                loss = result.detectable[f"{quantity} of a link"]
                assert (link, quantity) in tested or math.exp(excess) <= 1 + loss + 1e-9


def test_find_slow_reports_a_slow_shared_switch_as_racks_and_not_as_a_slow_link() -> None:
    rack = frozenset({1, 2, 4, 7})
    result = search(Cluster(noise=0.05, rack=rack), 8)
    assert (result.slow, result.is_healthy) == ((), True)
    for racks in result.racks.values():
        sets = {frozenset(map(int, hosts)) for hosts in racks.host_groups}
        assert sets == {rack, frozenset(range(8)) - rack}
        assert racks.ratio > 1.8
        assert racks.alone == pytest.approx(1.0, abs=0.2)


def test_find_slow_reports_racks_with_a_slow_connection_as_not_healthy() -> None:
    far = {(a, b): 1.0 for a in range(4) for b in range(4, 8)}
    result = search(Cluster(noise=0.02, links=far), 8)
    assert (result.slow, result.is_healthy) == ((), False)
    assert [racks.alone for racks in result.racks.values()] == pytest.approx([2.0, 2.0], rel=0.1)


def test_find_slow_leaves_two_hosts_undecided_if_both_are_slow_with_every_other_host() -> None:
    far = {(min(a, b), max(a, b)): 1.0 for a in (1, 6) for b in (0, 2, 3, 4, 5, 7)}
    cluster = Cluster(noise=0.02, links={**far, (1, 6): 0.4})
    result = search(cluster, 8)
    assert ("1", "6") in {hosts for racks in result.racks.values() for hosts in racks.host_groups}
    assert (result.slow, {*result.undecided}) == ((), {"host 1", "host 6"})
    assert not result.is_healthy
    assert len(cluster.rounds) < 40


class Stopping(Cluster):
    """A cluster whose hosts stop answering after a number of rounds."""

    ends: Mapping[int, int]

    def measure(self, groups: Round) -> Sequence[TimesByQuantity | str]:
        done = len(self.rounds)
        self.unreachable = frozenset(host for host, end in self.ends.items() if done >= end)
        return super().measure(groups)


def test_find_slow_reports_only_hosts_that_stopped_answering_as_unreachable() -> None:
    for seed in range(150):
        chance = random.Random(seed)
        count = chance.choice([4, 5, 6, 8, 33])
        share = chance.choice([0.1, 0.5])
        slow = {host: 1.0 for host in range(count) if chance.random() < 0.2}
        cluster = Stopping(noise=chance.choice([0.001, 0.5]), hosts=slow, seed=seed)
        cluster.ends = {h: chance.randrange(60) for h in range(count) if chance.random() < share}
        with contextlib.suppress(HostError):
            result = search(cluster, count, seed=seed)
            silent = {int(s.hosts[0]) for s in result.unreachable if len(s.hosts) == 1}
            assert silent <= set(cluster.ends)
            assert list(result.sentences())


@pytest.mark.exhaustive
def test_find_slow_finds_a_slow_link_among_34_hosts_only_if_hosts_are_measured_in_pairs() -> None:
    cluster = Cluster(noise=0.02, links={(7, 30): 1.0})
    groups = search(cluster, 34)
    assert (slow_groups(groups), groups.links_measured) == (set(), False)
    assert slow_groups(search(cluster, 34, in_pairs=True)) == {(7, 30)}


def _share(count: int, runs: int, slow: int, loss: float, noise: float) -> tuple[int, int]:
    """Return the number of runs that name the slow hosts, and of those that name another."""
    right = others = 0
    for seed in range(runs):
        hosts = dict.fromkeys(random.Random(seed).sample(range(count), slow), loss)
        cluster = Cluster(noise=noise, hosts=hosts, heavy=True, seed=seed)
        named = slow_groups(search(cluster, count, seed=seed))
        right += named == {(host,) for host in hosts}
        others += bool(named - {(host,) for host in hosts})
    return right, others


@pytest.mark.exhaustive
def test_find_slow_names_two_slow_hosts_of_16_in_most_clusters_and_hardly_any_other_host() -> None:
    right, others = _share(16, runs=40, slow=2, loss=0.2, noise=0.03)
    assert right >= 38
    assert others <= 1


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("count", [8, 16, 256])
def test_find_slow_names_a_host_in_at_most_about_one_of_a_hundred_healthy_clusters(
    count: int,
) -> None:
    _, others = _share(count, runs=400, slow=0, loss=0.0, noise=0.05)
    # Of 400 with 1 %, more than 9 have a chance of 0.8 %.
    assert others <= 9


class _Failing(Cluster):
    """A cluster without a time for the groups of which `fails` is true, given the round."""

    def __init__(self, fails: Callable[[int, HostGroup], bool]) -> None:
        super().__init__(noise=0.01)
        self.fails = fails

    def measure(self, groups: Round) -> Sequence[TimesByQuantity | str]:
        answers = super().measure(groups)
        number = len(self.rounds)
        return ["no route" if self.fails(number, g) else a for g, a in zip(groups, answers)]


def test_find_slow_names_a_link_that_does_not_answer_and_neither_of_its_hosts() -> None:
    result = search(_Failing(lambda number, group: group == ("1", "4")), 8)
    (silent,) = result.unreachable
    assert (silent.name, silent.reason, result.slow) == ("link 1 - 4", "no route", ())
    assert result.good_hosts == ["0", "1", "2", "3", "5", "6", "7"]


def test_find_slow_measures_all_pairs_of_hosts_again_if_no_pair_answered() -> None:
    result = search(_Failing(lambda number, group: number == 3), 8)
    assert len(result.times) == 28
    assert (result.unreachable, result.slow) == ((), ())


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 31, 32])
def test_find_slow_measures_each_pair_of_hosts_once_and_a_host_in_one_pair_at_a_time(
    count: int,
) -> None:
    hosts = [f"{host:02}" for host in range(count)]
    rounds = rounds_of_pairs(hosts)
    assert sorted(itertools.chain(*rounds)) == list(itertools.combinations(hosts, 2))
    for groups in rounds:
        assert len({*itertools.chain(*groups)}) == 2 * len(groups)
    assert len(rounds) == count - 1 + count % 2


@pytest.mark.parametrize("count", [64, 100, 1024])
def test_find_slow_divides_all_hosts_into_different_groups_in_each_round(count: int) -> None:
    hosts = [str(host) for host in range(count)]
    rounds = rounds_of_groups(hosts, random.Random(1))
    for groups in rounds:
        assert sorted(itertools.chain(*groups)) == sorted(hosts)
        assert {len(group) for group in groups} <= {8, 9, 12, 13, 16}
    assert len({frozenset(groups) for groups in rounds}) == len(rounds)


def test_find_slow_names_a_host_only_if_its_loss_exceeds_the_least_loss_of_the_option() -> None:
    cluster = Cluster(noise=0.01, hosts={2: 0.15})
    assert slow_groups(search(cluster, 8)) == {(2,)}
    assert slow_groups(search(cluster, 8, min_loss=0.2)) == set()

"""The search on simulated clusters: who is named, who is not, and how many rounds that takes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from busbw.extensions.stragglers.answer import Answer
from busbw.extensions.stragglers.roll import NobodyAnswers, Times
from busbw.extensions.stragglers.rounds import Group, Round, pair
from busbw.extensions.stragglers.search import Found, Search
from tests.unit.extensions.stragglers.cluster import Cluster


def _found(cluster: Cluster, count: int, **own: object) -> Found:
    return Search(hosts=count, measure=cluster.measure, **own).run()  # type: ignore[arg-type]


def _named(found: Found) -> set[Group]:
    return {one.who for one in found.accused}


@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "heavy tails"])
@pytest.mark.parametrize("count", [4, 8, 64, 256])
def test_where_nobody_is_slow_nobody_is_named(count: int, heavy: bool) -> None:
    found = _found(Cluster(noise=0.05, heavy=heavy), count)
    assert (found.accused, found.undecided, found.racks, found.dead) == ((), (), {}, {})
    assert all(0.05 < loss < 0.2 for loss in found.least.values())


@pytest.mark.parametrize("count", [4, 5, 8, 16, 64, 256])
def test_a_slow_host_is_named_with_what_it_takes(count: int) -> None:
    cluster = Cluster(noise=0.02, hosts={3: 0.5}, heavy=True)
    found = _found(cluster, count)
    assert _named(found) == {(3,)}
    (one,) = found.accused
    assert one.ratio == pytest.approx(1.5, rel=0.05)
    assert one.p < 0.01
    assert found.rounds == len(cluster.asked) < (count if count < 64 else 12) + 20


@pytest.mark.parametrize("count", [4, 8, 16])
def test_a_slow_link_is_named_and_neither_of_its_hosts(count: int) -> None:
    found = _found(Cluster(noise=0.02, links={(1, 3): 1.0}), count)
    assert _named(found) == {(1, 3)}
    (one,) = found.accused
    assert one.alone == pytest.approx(2.0, rel=0.1)


def test_two_at_once_are_both_named() -> None:
    found = _found(Cluster(noise=0.03, hosts={5: 1.0}, links={(1, 3): 1.0}), 8)
    assert _named(found) == {(5,), (1, 3)}
    # No slow host is what the link is compared with.
    assert sorted(one.alone or 0 for one in found.accused) == pytest.approx([0, 2.0], rel=0.1)


def test_a_slow_link_is_found_beside_many_who_only_look_slow() -> None:
    """Each of those takes a partner, of which there are few."""
    for seed in range(5):
        cluster = Cluster(noise=0.15, links={(4, 5): 2.0}, seed=seed)
        found = _found(cluster, 8, seed=seed)
        assert _named(found) == {(4, 5)}
        assert found.undecided == ()


@pytest.mark.parametrize(("host", "seed"), [(8, 5), (7, 8), (11, 34)])
def test_no_link_is_named_for_a_host_that_stays_undecided(host: int, seed: int) -> None:
    """A link of a slow host is slow, too."""
    found = _found(Cluster(noise=0.05, hosts={host: 0.1}, heavy=True, seed=seed), 16, seed=seed)
    assert _named(found) <= {(host,)}
    assert all(len(who) == 1 for who in found.undecided)


def test_half_of_the_hosts_are_named_where_the_others_are_alike() -> None:
    slow = dict.fromkeys((0, 1, 4, 6, 9, 11, 12, 15), 0.5)
    found = _found(Cluster(noise=0.02, hosts=slow), 16)
    assert _named(found) == {(host,) for host in slow}


def test_a_switch_that_four_hosts_share_is_no_slow_link() -> None:
    rack = frozenset({1, 2, 4, 7})
    found = _found(Cluster(noise=0.05, rack=rack), 8)
    assert found.accused == ()
    for racks in found.racks.values():
        assert {frozenset(one) for one in racks.hosts} == {rack, frozenset(range(8)) - rack}
        assert racks.ratio > 1.8
        assert racks.alone == pytest.approx(1.0, abs=0.2)


def test_a_rack_that_is_far_is_far_alone() -> None:
    far: dict[Group, float] = {(a, b): 1.0 for a in range(4) for b in range(4, 8)}
    found = _found(Cluster(noise=0.02, links=far), 8)
    assert found.accused == ()
    assert [racks.alone for racks in found.racks.values()] == pytest.approx([2.0, 2.0], rel=0.1)


def test_suspects_that_find_no_partner_are_undecided_before_long() -> None:
    far: dict[Group, float] = {pair(a, b): 1.0 for a in (1, 6) for b in (0, 2, 3, 4, 5, 7)}
    found = _found(Cluster(noise=0.02, links={**far, (1, 6): 0.4}), 8)
    assert {frozenset(one) for racks in found.racks.values() for one in racks.hosts} >= {
        frozenset({1, 6})
    }
    assert (found.accused, {*found.undecided}) == ((), {(1,), (6,)})
    assert found.rounds < 40


def test_a_suspect_that_dies_is_tested_no_more() -> None:
    cluster = Cluster(noise=0.02, hosts={2: 0.5})

    def measure(groups: Round) -> Sequence[Times | str]:
        if len(cluster.asked) == 10:
            cluster.dead = frozenset({2})
        return cluster.measure(groups)

    found = Search(hosts=8, measure=measure).run()
    assert (found.accused, found.undecided, set(found.dead)) == ((), (), {2})
    assert found.rounds < 30


def test_one_that_hangs_is_named_and_the_rest_is_measured() -> None:
    found = _found(Cluster(noise=0.02, hosts={1: 0.5}, dead=frozenset({3})), 8)
    assert (set(found.dead), _named(found)) == ({3}, {(1,)})


def test_whoever_dies_whenever_there_is_an_answer_and_nobody_else_is_dead() -> None:
    for seed in range(150):
        chance = random.Random(seed)
        count = chance.choice([4, 5, 6, 8, 33])
        share = chance.choice([0.1, 0.5])
        dies = {host: chance.randrange(60) for host in range(count) if chance.random() < share}

        class Dying(Cluster):
            ends: Mapping[int, int] = dies

            def measure(self, groups: Round) -> Sequence[Times | str]:
                self.dead = frozenset(h for h, at in self.ends.items() if len(self.asked) >= at)
                return super().measure(groups)

        slow = {host: 1.0 for host in range(count) if chance.random() < 0.2}
        cluster = Dying(noise=chance.choice([0.001, 0.5]), hosts=slow, seed=seed)
        with contextlib.suppress(NobodyAnswers):
            found = _found(cluster, count, seed=seed)
            assert set(found.dead) <= set(dies)
            assert list(Answer(found=found, names=[*map(str, range(count))]).sentences())


def test_a_smaller_loss_than_the_least_is_nobody_s_fault() -> None:
    cluster = Cluster(noise=0.01, hosts={2: 0.15})
    assert _named(_found(cluster, 8)) == {(2,)}
    assert _named(_found(cluster, 8, least=0.2)) == set()


@pytest.mark.exhaustive
def test_more_hosts_than_meet_meet_where_that_is_asked_for() -> None:
    cluster = Cluster(noise=0.02, links={(7, 30): 1.0})
    assert _named(_found(cluster, 34)) == set()
    assert _named(_found(cluster, 34, in_pairs=True)) == {(7, 30)}


def _share(count: int, runs: int, slow: int, loss: float, noise: float) -> tuple[int, int]:
    """In how many runs the answer was right, and in how many somebody was named wrongly."""
    right = wrong = 0
    for seed in range(runs):
        hosts = dict.fromkeys(random.Random(seed).sample(range(count), slow), loss)
        cluster = Cluster(noise=noise, hosts=hosts, heavy=True, seed=seed)
        named = _named(_found(cluster, count, seed=seed))
        right += named == {(host,) for host in hosts}
        wrong += bool(named - {(host,) for host in hosts})
    return right, wrong


@pytest.mark.exhaustive
def test_most_slow_hosts_are_found_and_hardly_anybody_else() -> None:
    right, wrong = _share(16, runs=40, slow=2, loss=0.2, noise=0.03)
    assert right >= 38
    assert wrong <= 1


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("count", [8, 16, 256])
def test_healthy_clusters_are_accused_once_in_a_hundred_times_at_most(count: int) -> None:
    _, wrong = _share(count, runs=400, slow=0, loss=0.0, noise=0.05)
    # Of 400 with 1 %, more than 9 have a chance of 0.8 %.
    assert wrong <= 9


class _Failing(Cluster):
    """Without a time where `fails` says so of a group, in a round."""

    def __init__(self, fails: Callable[[int, Group], bool]) -> None:
        super().__init__(noise=0.01)
        self.fails = fails

    def measure(self, groups: Round) -> Sequence[Times | str]:
        taken = super().measure(groups)
        number = len(self.asked)
        return ["no route" if self.fails(number, g) else one for g, one in zip(groups, taken)]


def test_a_link_that_does_not_work_at_all_is_named_and_no_host_of_it() -> None:
    found = _found(_Failing(lambda number, group: group == (1, 4)), 8)
    assert found.cut == {(1, 4): "no route"}
    assert (found.dead, found.accused) == ({}, ())


def test_a_round_in_which_nobody_answers_is_measured_again() -> None:
    found = _found(_Failing(lambda number, group: number == 3), 8)
    assert len(found.times_s) == 28
    assert (found.cut, found.dead, found.accused) == ({}, {}, ())

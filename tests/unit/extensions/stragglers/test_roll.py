"""Who answers, and who is to blame where a group does not."""

from __future__ import annotations

import random

import pytest

from busbw.extensions.stragglers.roll import NobodyAnswers, Roll
from tests.unit.extensions.stragglers.cluster import Cluster


def _roll(cluster: Cluster, count: int = 6) -> Roll:
    return Roll(count, cluster.measure, random.Random(1))


@pytest.mark.parametrize("dead", [{3}, {3, 4}, {1, 2, 5}])
def test_those_that_fail_with_several_others_are_dead_and_their_partners_are_not(
    dead: set[int],
) -> None:
    cluster = Cluster(noise=0.0, dead=frozenset(dead))
    roll = _roll(cluster)
    for groups in (((0, 1), (2, 3), (4, 5)), ((0, 2), (1, 4), (3, 5)), ((0, 3), (1, 5), (2, 4))):
        roll.ask(groups)
    assert set(roll.dead) == dead
    assert all("hangs" in why for why in roll.dead.values())
    assert roll.rounds == len(cluster.asked)


def test_the_dead_are_asked_no_more() -> None:
    cluster = Cluster(noise=0.0, dead=frozenset({3}))
    roll = _roll(cluster)
    roll.ask([(0, 1), (2, 3), (4, 5)])
    asked = len(cluster.asked)
    found = roll.ask([(0, 3), (1, 2), (3, 4, 5)])
    assert set(found) == {(1, 2), (4, 5)}
    assert cluster.asked[asked:] == [((1, 2), (4, 5))]


def test_one_that_fails_once_is_not_dead() -> None:
    class Once(Cluster):
        def measure(self, groups: object) -> object:  # type: ignore[override]
            self.dead = frozenset() if self.asked else frozenset({0})
            return super().measure(groups)  # type: ignore[arg-type]

    roll = _roll(Once(noise=0.0))
    roll.ask([(0, 1), (2, 3), (4, 5)])
    assert roll.dead == {}


def test_a_late_round_in_which_nobody_answers_is_no_end() -> None:
    cluster = Cluster(noise=0.0)
    roll = _roll(cluster)
    for _ in range(5):
        roll.ask([(0, 1), (2, 3), (4, 5)])
    cluster.dead = frozenset(range(6))
    assert roll.ask([(0, 1), (2, 3), (4, 5)]) == {}
    cluster.dead = frozenset()
    assert len(roll.ask([(0, 2), (1, 4), (3, 5)])) == 3
    assert roll.dead == {}


def test_where_nobody_answers_nobody_is_blamed() -> None:
    roll = _roll(Cluster(noise=0.0, dead=frozenset(range(6))))
    assert roll.ask([(0, 1), (2, 3)]) == roll.ask([(0, 2), (1, 3)]) == {}
    with pytest.raises(NobodyAnswers, match="hangs"):
        roll.ask([(0, 3), (1, 2)])
    assert roll.dead == {}


def test_one_that_answered_and_then_does_not_is_dead() -> None:
    cluster = Cluster(noise=0.0)
    roll = _roll(cluster)
    assert len(roll.ask([(0, 1), (2, 3), (4, 5)])) == 3
    cluster.dead = frozenset({4})
    assert set(roll.ask([(0, 2), (1, 4), (3, 5)])) == {(0, 2), (3, 5)}
    assert set(roll.dead) == {4}

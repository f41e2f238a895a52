"""Which hosts are unreachable if a group does not answer."""

from __future__ import annotations

import random

import pytest

from busbw.extensions.stragglers.liveness import Liveness, NoHostAnswersError
from tests.unit.extensions.stragglers.simulated_cluster import Cluster

PAIRS = [("0", "1"), ("2", "3"), ("4", "5")]
OTHERS = [("0", "2"), ("1", "4"), ("3", "5")]


def _liveness(cluster: Cluster) -> Liveness:
    return Liveness([*"012345"], cluster.measure, random.Random(1))


@pytest.mark.parametrize("hosts", [{3}, {3, 4}, {1, 2, 5}])
def test_hosts_that_fail_with_several_others_are_unreachable_and_measured_no_more(
    hosts: set[int],
) -> None:
    cluster = Cluster(noise=0.0, unreachable=frozenset(hosts))
    liveness = _liveness(cluster)
    for groups in (PAIRS, OTHERS, [("0", "3"), ("1", "5"), ("2", "4")]):
        liveness.measure_round(groups)
    assert set(map(int, liveness.unreachable)) == hosts
    assert all("hangs" in reason for reason in liveness.unreachable.values())
    liveness.measure_round([tuple("012345")])
    assert cluster.rounds[-1] == (tuple(liveness.reachable),)


def test_a_host_that_fails_once_is_reachable() -> None:
    cluster = Cluster(noise=0.0)
    liveness = _liveness(cluster)
    liveness.measure_round(PAIRS)
    cluster.unreachable = frozenset(range(6))
    assert liveness.measure_round(PAIRS) == {}
    cluster.unreachable = frozenset()
    assert len(liveness.measure_round(OTHERS)) == 3
    assert liveness.unreachable == {}


def test_where_no_host_answers_none_is_unreachable() -> None:
    liveness = _liveness(Cluster(noise=0.0, unreachable=frozenset(range(6))))
    assert liveness.measure_round(PAIRS) == liveness.measure_round(OTHERS) == {}
    with pytest.raises(NoHostAnswersError, match="hangs"):
        liveness.measure_round(PAIRS)
    assert liveness.unreachable == {}

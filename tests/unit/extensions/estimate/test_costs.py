"""Costs compared with counts of the messages of each method, and with the documents.

"placement的估计" (Estimating placement) is the document of the eight machines.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from busbw.extensions.estimate.costs import (
    LinkPlace,
    colocated_parameter_servers_cost,
    dedicated_parameter_servers_cost,
    naive_ring_cost,
    ring_cost,
)

PLACEMENTS = [(2, 1), (3, 1), (8, 1), (2, 2), (4, 2), (6, 3), (12, 3)]


@pytest.mark.parametrize(("ranks", "hosts"), PLACEMENTS)
def test_the_estimated_ring_sends_one_nth_of_the_gradients_in_each_of_2_times_n_minus_1_steps(
    ranks: int, hosts: int
) -> None:
    cost = ring_cost(1.0, ranks, hosts)
    assert cost.sent_bytes == pytest.approx(2 * (ranks - 1) / ranks)
    for flow in cost.flows.values():
        assert (flow.message_count, flow.moved_bytes) == (2 * (ranks - 1), cost.sent_bytes)
    assert set(cost.flows) == {level for level, used in _levels(ranks, hosts).items() if used}


def _levels(ranks: int, hosts: int) -> dict[LinkPlace, bool]:
    return {LinkPlace.INTRA: ranks > hosts, LinkPlace.INTER: hosts > 1}


@pytest.mark.parametrize(("ranks", "hosts"), PLACEMENTS)
def test_the_bytes_of_an_estimated_naive_ring_equal_the_bytes_of_its_counted_messages(
    ranks: int, hosts: int
) -> None:
    path = [*range(ranks), *range(ranks - 1)]
    per_host = ranks // hosts
    counts = Counter(
        LinkPlace.INTRA if source // per_host == target // per_host else LinkPlace.INTER
        for source, target in itertools.pairwise(path)
    )
    flows = naive_ring_cost(1.0, ranks, hosts).flows
    assert {level: flow.message_count for level, flow in flows.items()} == counts
    assert {level: flow.moved_bytes for level, flow in flows.items()} == counts


def test_each_of_eight_colocated_servers_is_estimated_to_move_3_5_times_the_gradients() -> None:
    cost = colocated_parameter_servers_cost(1.0, 8, 1, 8)
    # Sent and received.
    assert 2 * cost.sent_bytes == pytest.approx(4 * 7 / 8)


def _pushed(ranks: int, hosts: int, servers: int) -> dict[LinkPlace, int]:
    """Count shares pushed over the busiest link of each level, in its busier direction."""
    per_host = ranks // hosts
    places = [host * per_host + row for row in range(per_host) for host in range(hosts)][:servers]
    counts: Counter[tuple[LinkPlace, str, int]] = Counter()
    for worker in range(ranks):
        for server in places:
            if worker // per_host != server // per_host:
                counts[LinkPlace.INTER, "out", worker // per_host] += 1
                counts[LinkPlace.INTER, "in", server // per_host] += 1
            elif worker != server:
                counts[LinkPlace.INTRA, "out", worker] += 1
                counts[LinkPlace.INTRA, "in", server] += 1
    levels = {level for level, _, _ in counts}
    return {
        level: max(count for key, count in counts.items() if key[0] is level) for level in levels
    }


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 36))
def test_the_estimated_bytes_moved_by_colocated_parameter_servers_equal_counted_messages(
    hosts: int, per_host: int, servers: int
) -> None:
    ranks = hosts * per_host
    assume(ranks >= 2 and servers <= ranks)
    flows = colocated_parameter_servers_cost(float(servers), ranks, hosts, servers).flows
    moved = {level: flow.moved_bytes for level, flow in flows.items()}
    assert moved == pytest.approx({k: 2 * v for k, v in _pushed(ranks, hosts, servers).items()})


def test_an_estimate_lets_the_workers_of_a_host_share_the_link_to_dedicated_servers() -> None:
    assert (
        dedicated_parameter_servers_cost(1.0, 8, 2, 8).flows[LinkPlace.INTER].moved_bytes == 2 * 4.0
    )

"""The parameter server: formulas held against counted messages, and against "placement的估计"."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from busbw.studies.estimate.methods import METHODS, Layout, Level, Link, colocated, dedicated

GIGABIT = Link(name="1gbe", bytes_per_s=125e6)
FLAT = {Level.INTRA: GIGABIT, Level.INTER: GIGABIT}


def test_estimating_placement_492_m_values_go_into_a_server_of_eight_workers() -> None:
    cost = dedicated(61.5e6, Layout(ranks=8), 1)
    push, pull = cost.parts
    assert cost.server_bytes == 492e6
    assert max(flow.in_bytes for flow in push) == 492e6
    assert max(flow.out_bytes for flow in pull) == 492e6
    assert cost.sent_bytes == 61.5e6


def test_estimating_placement_a_machine_that_is_both_moves_4_times_7_8_of_the_gradients() -> None:
    cost = colocated(1.0, Layout(ranks=8), 8)
    # Sent and taken.
    assert 2 * cost.sent_bytes == pytest.approx(4 * 7 / 8)


@given(st.floats(1.0, 1e12), st.integers(2, 512))
def test_a_server_beside_every_worker_moves_as_much_as_a_ring(size: float, ranks: int) -> None:
    layout = Layout(ranks=ranks)
    cost, ring = colocated(size, layout, ranks), METHODS["ring"](size, layout)
    assert cost.sent_bytes == pytest.approx(ring.sent_bytes)
    assert cost.seconds(FLAT) == pytest.approx(ring.seconds(FLAT))


@given(st.integers(2, 64), st.integers(1, 64))
def test_dedicated_servers_divide_the_time_until_there_are_as_many_as_workers(
    workers: int, servers: int
) -> None:
    one, cost = (dedicated(1e9, Layout(ranks=workers), k) for k in (1, servers))
    gain = one.seconds(FLAT) / cost.seconds(FLAT)
    assert gain == pytest.approx(min(servers, workers))


def test_full_duplex_gains_nothing_for_dedicated_servers() -> None:
    half = {Level.INTRA: Link(name="half", bytes_per_s=125e6, full_duplex=False)}
    cost = dedicated(1e9, Layout(ranks=8), 2)
    assert cost.seconds(half) == cost.seconds(FLAT)


def _counted(layout: Layout, servers: int) -> tuple[Counter[int], Counter[int], Fraction]:
    """Pushing, counted: out of each host, into each host, the most that a rank sends inside."""
    per_host, hosts = layout.per_host, layout.hosts
    seats = [host * per_host + row for row in range(per_host) for host in range(hosts)][:servers]
    out: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    inside: Counter[int] = Counter()
    for worker in range(layout.ranks):
        for seat in seats:
            here, there = worker // per_host, seat // per_host
            if here != there:
                out[here] += 1
                taken[there] += 1
            elif worker != seat:
                inside[worker] += 1
    return out, taken, Fraction(max(inside.values(), default=0), servers)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 36))
def test_servers_beside_workers_move_what_counting_each_message_says(
    hosts: int, per_host: int, servers: int
) -> None:
    assume(hosts * per_host >= 2 and servers <= hosts * per_host)
    layout = Layout(ranks=hosts * per_host, hosts=hosts)
    out, taken, inside = _counted(layout, servers)
    flows = colocated(float(servers), layout, servers).parts[0]
    between = [flow for flow in flows if flow.level is Level.INTER]
    within = [flow for flow in flows if flow.level is Level.INTRA]
    assert max((flow.out_bytes for flow in between), default=0) == pytest.approx(
        max(out.values(), default=0)
    )
    assert max((flow.in_bytes for flow in between), default=0) == pytest.approx(
        max(taken.values(), default=0)
    )
    assert max((flow.out_bytes for flow in within), default=0) == pytest.approx(
        float(inside * servers)
    )


def test_workers_of_a_host_share_its_link() -> None:
    cost = dedicated(1.0, Layout(ranks=8, hosts=2), 8)
    assert max(flow.out_bytes for flow in cost.parts[0]) == 4.0

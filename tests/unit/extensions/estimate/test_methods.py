"""Methods: formulas held against algorithms carried out or counted messages, and documents.

"tensorflow分布式" (Distributed TensorFlow), "placement的估计" (Estimating layout) and
"Tensorflow Strategies on parallel computing" are the documents whose figures are repeated.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from busbw.extensions.estimate.methods import (
    METHODS,
    Cost,
    Layout,
    Level,
    Link,
    UnsupportedLayoutError,
    colocated,
    dedicated,
)
from tests.unit.extensions.estimate.simulation import ALGORITHMS, World

GIGABIT = Link(name="1gbe", bytes_per_s=125e6)
FLAT = {Level.INTRA: GIGABIT, Level.INTER: GIGABIT}

IN_ONE = [(2, 1), (3, 1), (4, 1), (7, 1), (8, 1), (12, 1)]
SPREAD = [(2, 2), (4, 2), (4, 4), (6, 3), (8, 2), (8, 4), (12, 3), (16, 4)]
LAYOUTS = [Layout(ranks=ranks, hosts=hosts) for ranks, hosts in (*IN_ONE, *SPREAD)]


def _defined(name: str, layout: Layout) -> bool:
    try:
        METHODS[name](1.0, layout)
    except UnsupportedLayoutError:
        return False
    return True


CARRIED_OUT = [(name, one) for name in METHODS for one in LAYOUTS if _defined(name, one)]

sizes = st.floats(1.0, 1e12)
links = st.builds(
    Link,
    name=st.just("some"),
    bytes_per_s=st.floats(1e6, 1e12),
    latency_s=st.floats(0.0, 1e-3),
    full_duplex=st.booleans(),
)


def _of(cost: Cost, level: Level) -> tuple[int, float, float]:
    """Steps, and what the busiest end sends and takes over links of `level` in all parts."""
    flows = [flow for part in cost.parts for flow in part if flow.level is level]
    return (
        sum(flow.steps for flow in flows),
        sum(flow.out_bytes for flow in flows),
        sum(flow.in_bytes for flow in flows),
    )


@pytest.mark.parametrize(
    ("name", "layout"),
    CARRIED_OUT,
    ids=[f"{name}-{one.ranks}r-{one.hosts}h" for name, one in CARRIED_OUT],
)
def test_formulas_say_what_the_algorithm_carried_out_moves(name: str, layout: Layout) -> None:
    cost = METHODS[name](1.0, layout)
    parts = layout.ranks * 16
    world = World(layout=layout, parts=parts)
    ALGORITHMS[name](world)
    assert world.done
    assert world.steps == cost.steps
    assert max(world.sent.values()) / parts == pytest.approx(cost.sent_bytes)
    if layout.hosts > 1 and name in ("ring", "hierarchical", "halving-doubling"):
        _, out_bytes, in_bytes = _of(cost, Level.INTER)
        assert max(world.host_out.values()) / parts == pytest.approx(out_bytes)
        assert max(world.host_in.values()) / parts == pytest.approx(in_bytes)


def test_the_naive_ring_changes_hosts_as_often_as_counted() -> None:
    for layout in LAYOUTS:
        world = World(layout=layout, parts=layout.ranks)
        ALGORITHMS["naive ring"](world)
        crossing = sum(world.host_out.values()) / world.parts
        assert _of(METHODS["naive ring"](1.0, layout), Level.INTER)[0] == crossing


@pytest.mark.parametrize(("ranks", "hosts"), [(6, 3), (6, 2), (12, 4)])
def test_halving_doubling_over_hosts_wants_powers_of_two(ranks: int, hosts: int) -> None:
    with pytest.raises(UnsupportedLayoutError, match="powers of two"):
        METHODS["halving-doubling"](1.0, Layout(ranks=ranks, hosts=hosts))


@pytest.mark.parametrize(("ranks", "hosts"), [(1, 1), (0, 1), (4, 0), (4, -2), (4, 3), (4, 8)])
def test_a_placement_that_cannot_be_is_an_error(ranks: int, hosts: int) -> None:
    with pytest.raises(ValueError, match="ranks"):
        Layout(ranks=ranks, hosts=hosts)


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
    found = [
        max((flow.out_bytes for flow in between), default=0),
        max((flow.in_bytes for flow in between), default=0),
        max((flow.out_bytes for flow in within), default=0),
    ]
    wanted = [max(out.values(), default=0), max(taken.values(), default=0)]
    assert found == pytest.approx([*wanted, float(inside * servers)])


def test_workers_of_a_host_share_its_link() -> None:
    cost = dedicated(1.0, Layout(ranks=8, hosts=2), 8)
    assert max(flow.out_bytes for flow in cost.parts[0]) == 4.0

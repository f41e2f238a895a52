"""Reduce-scatter and all-gather apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.studies.estimate.cost import Layout, Level, Link
from busbw.studies.estimate.methods import METHODS, all_gather, reduce_scatter

LINK = {Level.INTRA: Link(name="some", bytes_per_s=1e9, latency_s=1e-5)}


@given(st.floats(1.0, 1e12), st.integers(2, 4096))
def test_each_is_half_of_a_ring_all_reduce(size: float, ranks: int) -> None:
    layout = Layout(ranks=ranks)
    halves = (reduce_scatter(size, layout), all_gather(size, layout))
    whole = METHODS["ring"](size, layout)
    for half in halves:
        assert half.sent_bytes == pytest.approx((ranks - 1) / ranks * size)
        assert half.seconds(LINK) == pytest.approx(whole.seconds(LINK) / 2)
        assert half.steps == ranks - 1


def test_over_hosts_both_use_the_link_of_a_host_as_much_as_that_of_a_rank() -> None:
    for half in (reduce_scatter, all_gather):
        cost = half(8.0, Layout(ranks=8, hosts=2))
        assert cost.levels == {Level.INTRA, Level.INTER}
        (part,) = cost.parts
        assert {flow.out_bytes for flow in part.flows} == {7.0}

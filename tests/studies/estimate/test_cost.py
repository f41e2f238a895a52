"""Links, flows and layouts."""

from __future__ import annotations

import pytest

from busbw.studies.estimate.cost import Cost, Flow, Layout, Level, Link, Part

BOTH_WAYS = Flow(level=Level.INTRA, steps=3, out_bytes=4e9, in_bytes=2e9)


def test_full_duplex_takes_the_fuller_direction_and_half_duplex_both() -> None:
    full = Link(name="full", bytes_per_s=1e9, latency_s=0.5)
    half = Link(name="half", bytes_per_s=1e9, latency_s=0.5, full_duplex=False)
    assert BOTH_WAYS.seconds(full) == pytest.approx(1.5 + 4)
    assert BOTH_WAYS.seconds(half) == pytest.approx(1.5 + 6)


def test_flows_of_a_part_are_at_once_and_parts_one_after_another() -> None:
    other = Flow(level=Level.INTER, steps=1, out_bytes=0.0, in_bytes=1e9)
    links = {
        Level.INTRA: Link(name="inside", bytes_per_s=1e9),
        Level.INTER: Link(name="between", bytes_per_s=1e8),
    }
    cost = Cost(parts=(Part(flows=(BOTH_WAYS, other)), Part(flows=(BOTH_WAYS,))), sent_bytes=8e9)
    assert cost.seconds(links) == pytest.approx(10 + 4)
    assert cost.bottleneck(links) is Level.INTER
    assert cost.steps == 6


@pytest.mark.parametrize(("ranks", "hosts"), [(1, 1), (0, 1), (4, 0), (4, -2), (4, 3), (4, 8)])
def test_a_placement_that_cannot_be_is_an_error(ranks: int, hosts: int) -> None:
    with pytest.raises(ValueError, match="ranks"):
        Layout(ranks=ranks, hosts=hosts)

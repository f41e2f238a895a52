"""The formula of an all-reduce over a link, compared with its closed forms."""

from __future__ import annotations

import pytest

from tests.contract.network.link import CABLE, Link, all_reduce_s, curve

MIB = 2**20
# Without a bucket, what the closed forms say is exact.
PLAIN = Link(delay_s=0.005, bytes_per_s=25e6, burst_bytes=0)
RATE = PLAIN.payload_bytes_per_s
GRID = [2**power for power in range(10, 27, 2)]


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_latency_in_the_formula_of_a_link_is_two_round_trips_for_each_other_rank(
    ranks: int,
) -> None:
    assert all_reduce_s(CABLE, ranks, 1024) == pytest.approx(4 * (ranks - 1) * 0.005)


@pytest.mark.parametrize("payload", [MIB, 2 * MIB, 4 * MIB])
def test_the_formula_of_a_link_between_two_ranks_adds_two_round_trips_to_the_transfer_time(
    payload: int,
) -> None:
    assert all_reduce_s(PLAIN, 2, payload) == pytest.approx(0.02 + payload / RATE)
    saved_s = 2 * CABLE.burst_bytes / RATE
    assert all_reduce_s(CABLE, 2, payload) == pytest.approx(0.02 + payload / RATE - saved_s)


def test_the_formula_of_a_link_divides_the_rate_between_groups_that_share_the_link() -> None:
    assert all_reduce_s(PLAIN, 2, MIB, groups=2) == pytest.approx(0.02 + 2 * MIB / RATE)


@pytest.mark.parametrize(
    ("ranks", "groups", "latency_s", "per_byte"), [(2, 1, 0.02, 1.0), (2, 2, 0.02, 2.0)]
)
def test_the_fitted_curve_of_two_ranks_over_a_link_is_close_to_the_formula_of_the_link(
    ranks: int, groups: int, latency_s: float, per_byte: float
) -> None:
    fit = curve(CABLE, ranks, GRID, groups)
    assert fit.latency_s == pytest.approx(latency_s, rel=0.1)
    assert fit.bandwidth_bytes_per_s == pytest.approx(RATE / per_byte, rel=0.1)

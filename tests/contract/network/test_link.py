"""The formula of an all-reduce over a link: its closed forms, where they hold."""

from __future__ import annotations

import pytest

from tests.contract.network.link import CABLE, Link, all_reduce_s, curve

MIB = 2**20
# Without a bucket, what the closed forms say is exact.
PLAIN = Link(delay_s=0.005, bytes_per_s=25e6, burst_bytes=0)
RATE = PLAIN.payload_bytes_per_s
GRID = [2**power for power in range(10, 27, 2)]


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_latency_is_two_round_trips_for_each_other_rank(ranks: int) -> None:
    assert all_reduce_s(CABLE, ranks, 1024) == pytest.approx(4 * (ranks - 1) * 0.005)


@pytest.mark.parametrize("payload", [MIB, 2 * MIB, 4 * MIB])
def test_two_ranks_send_every_byte_once_after_two_round_trips(payload: int) -> None:
    assert all_reduce_s(PLAIN, 2, payload) == pytest.approx(0.02 + payload / RATE)
    saved_s = 2 * CABLE.burst_bytes / RATE
    assert all_reduce_s(CABLE, 2, payload) == pytest.approx(0.02 + payload / RATE - saved_s)


def test_two_ranks_wait_before_every_further_segment_of_a_mebibyte() -> None:
    more_s = all_reduce_s(CABLE, 2, 64 * MIB) - all_reduce_s(CABLE, 2, 32 * MIB)
    each_s = MIB / RATE + CABLE.delay_s - CABLE.burst_bytes / RATE
    assert more_s == pytest.approx(32 * each_s)


def test_with_a_small_payload_four_ranks_are_limited_by_round_trips() -> None:
    payload = 512 * 1024
    assert all_reduce_s(PLAIN, 4, payload) == pytest.approx(12 * 0.005 + payload / RATE, rel=0.01)


def test_with_a_large_payload_four_ranks_are_limited_by_the_link() -> None:
    payload = 8 * MIB
    expected_s = 4 * 0.005 + 2 * 3 / 4 * payload / RATE
    assert all_reduce_s(PLAIN, 4, payload) == pytest.approx(expected_s)


def test_groups_that_share_a_link_have_their_part_of_it() -> None:
    assert all_reduce_s(PLAIN, 2, MIB, groups=2) == pytest.approx(0.02 + 2 * MIB / RATE)


def test_a_larger_payload_never_takes_less() -> None:
    for ranks in (2, 4):
        seconds = [all_reduce_s(CABLE, ranks, size) for size in GRID]
        assert seconds == sorted(seconds)


@pytest.mark.parametrize(
    ("ranks", "groups", "latency_s", "per_byte"), [(2, 1, 0.02, 1.0), (2, 2, 0.02, 2.0)]
)
def test_the_curve_of_two_ranks_is_near_the_closed_form(
    ranks: int, groups: int, latency_s: float, per_byte: float
) -> None:
    fit = curve(CABLE, ranks, GRID, groups)
    assert fit.latency_s == pytest.approx(latency_s, rel=0.1)
    assert fit.bandwidth_bytes_per_s == pytest.approx(RATE / per_byte, rel=0.1)


def test_the_curve_of_four_ranks_is_between_the_closed_forms() -> None:
    fit = curve(CABLE, 4, GRID)
    assert 4 * 0.005 < fit.latency_s < 12 * 0.005
    assert RATE / 1.5 < fit.bandwidth_bytes_per_s < RATE

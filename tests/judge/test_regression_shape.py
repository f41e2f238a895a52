"""What a regression looks like, in words: what is slower by how much, and what is not."""

from __future__ import annotations

import pytest

from busbw.judge.curve import SizeShift
from busbw.judge.regression_shape import LocatedRegression, curve_shift, locate
from busbw.model import KIB, MIB, RegressionShape
from tests.judge.simulated import CURVE, SIZES, Ratio, at, bandwidth, latency, shifts


def _located(located: LocatedRegression | None) -> LocatedRegression:
    assert located is not None
    return located


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (latency(0.15), "the latency grew by 15 % (50 us -> 57.5 us); the bandwidth did not fall"),
        (
            bandwidth(0.25),
            "the bandwidth fell by 20 % (3.40 GB/s -> 2.72 GB/s); the latency did not grow",
        ),
        (at(0.15, *SIZES), "all payloads are slower by about 15 %"),
        (at(0.15, 64 * KIB), "only 64K is slower, by 15 %"),
        (
            at(0.15, *SIZES[6:]),
            "payloads from 4M on are slower by about 15 %, smaller ones not: "
            "a step between 1M and 4M",
        ),
        (
            at(0.15, *SIZES[:2]),
            "payloads up to 4K are slower by about 15 %, larger ones not: "
            "a step between 4K and 16K",
        ),
        (
            lambda size: {KIB: 1.2, 64 * KIB: 1.3, 4 * MIB: 1.5}.get(size, 1.0),
            "3 of 9 payloads are slower, by 20 % to 50 %, in no common shape: 1K, 64K, 4M",
        ),
        (
            lambda size: {KIB: 1.1, MIB: 0.5, 4 * MIB: 0.4}.get(size, 1.0),
            "1K is slower, by 10 %; the other payloads changed in no common shape",
        ),
        (
            lambda size: 0.8 + 0.7 * CURVE.latency_share(size),
            "the latency grew by 50 % (50 us -> 75 us); the bandwidth grew by 25 % "
            "(3.40 GB/s -> 4.25 GB/s)",
        ),
    ],
)
def test_the_words_say_what_is_slower_by_how_much_and_what_is_not(ratio: Ratio, text: str) -> None:
    assert _located(locate(CURVE, shifts(ratio, error=0.01))).text == text


@pytest.mark.parametrize(
    ("ratio", "change"),
    [
        (latency(0.15), 0.15),
        (bandwidth(0.25), 0.25),
        (at(0.15, *SIZES), 0.15),
        (at(0.15, SIZES[2]), 0.15),
        (at(0.15, *SIZES[6:]), 0.15),
    ],
)
def test_the_change_is_the_growth_of_what_is_named(ratio: Ratio, change: float) -> None:
    assert pytest.approx(change, abs=0.002) == _located(locate(CURVE, shifts(ratio))).change


def test_the_payloads_are_those_at_which_it_shows() -> None:
    assert _located(locate(CURVE, shifts(latency(0.15)))).payloads == SIZES[:4]
    assert _located(locate(CURVE, shifts(bandwidth(0.15)))).payloads == SIZES[4:]
    assert _located(locate(CURVE, shifts(at(0.15, *SIZES[6:])))).payloads == SIZES[6:]


def test_the_order_of_the_sizes_changes_nothing() -> None:
    sizes = shifts(latency(0.15), seed=1)
    assert locate(CURVE, sizes[::-1]) == locate(CURVE, sizes)


def test_many_payloads_are_named_by_the_first_and_the_last() -> None:
    located = _located(locate(CURVE, [], tail=SIZES))
    assert "9 payloads from 1K to 64M" in located.text


def test_where_no_size_is_judged_slower_nothing_is_located() -> None:
    assert locate(CURVE, shifts(latency(0.15), judged=False)) is None
    assert locate(CURVE, []) is None


@pytest.mark.parametrize("sizes", [(MIB,), (MIB, 4 * MIB)])
def test_one_or_two_sizes_are_one_size_or_all(sizes: tuple[int, ...]) -> None:
    everything = _located(locate(CURVE, shifts(at(0.15, *sizes), sizes)))
    assert everything.kind is (RegressionShape.ALL if len(sizes) > 1 else RegressionShape.ONE_SIZE)
    assert _located(locate(CURVE, shifts(at(0.15, MIB), sizes))).kind is RegressionShape.ONE_SIZE


def test_the_only_size_is_not_called_the_only_one_that_is_slower() -> None:
    located = _located(locate(CURVE, shifts(at(0.15, MIB), [MIB])))
    assert located.text == "1M is slower, by 15 %"


def test_one_size_is_one_that_is_judged_slower() -> None:
    """The step of 64M is larger in units of its error, but its policy asks for more."""
    sizes = shifts(at(0.1, KIB), error=0.01)
    loud = SizeShift(
        payload_bytes=64 * MIB, log_ratio=0.02, standard_error=0.001, significant=False
    )
    located = _located(locate(None, [*sizes[:-1], loud]))
    assert KIB in located.payloads


def test_sizes_that_got_faster_beside_slower_ones_do_not_hide_them() -> None:
    mixed = shifts(lambda size: {KIB: 1.1, MIB: 0.5, 4 * MIB: 0.4}.get(size, 1.0), error=0.01)
    assert KIB in _located(locate(CURVE, mixed)).payloads


def test_equal_launches_without_any_spread_are_located_too() -> None:
    located = _located(locate(CURVE, shifts(at(0.15, *SIZES), error=0.0)))
    assert located.kind is RegressionShape.ALL


def test_where_only_the_slow_samples_moved_it_is_the_tail() -> None:
    located = _located(locate(CURVE, shifts(at(0.0)), tail=(16 * KIB, 4 * KIB)))
    assert located.kind is RegressionShape.TAIL
    assert located.payloads == (4 * KIB, 16 * KIB)
    assert located.text == "at 4K, 16K only the slow samples (p90) are slower"


def test_a_tail_beside_slower_sizes_is_said_after_them() -> None:
    located = _located(locate(CURVE, shifts(at(0.15, MIB)), tail=(4 * KIB,)))
    assert located.kind is RegressionShape.ONE_SIZE
    assert located.text.endswith("by 15 %; at 4K only the slow samples (p90) are slower")


def test_a_shift_says_that_no_single_payload_shows_it() -> None:
    sizes = shifts(latency(0.1), judged=False)
    located = _located(curve_shift(CURVE, sizes, quantile=3.0, floor=0.05))
    assert located.text == (
        "the latency grew by 10 % (50 us -> 55 us); the bandwidth did not fall; "
        "no single payload shows it"
    )


def test_a_shift_below_the_floor_or_within_its_error_is_none() -> None:
    sizes = shifts(latency(0.1), judged=False)
    assert curve_shift(CURVE, sizes, quantile=3.0, floor=0.12) is None
    assert curve_shift(CURVE, sizes, quantile=10.0, floor=0.02) is None


def test_where_one_size_is_judged_slower_there_is_no_shift_beside_it() -> None:
    assert curve_shift(CURVE, shifts(latency(0.15)), quantile=3.0, floor=0.05) is None


def test_one_size_far_off_is_no_shift_of_the_curve() -> None:
    sizes = shifts(at(0.4, SIZES[8]), judged=False)
    assert curve_shift(CURVE, sizes, quantile=3.0, floor=0.05) is None


def test_without_a_curve_there_is_no_shift() -> None:
    assert curve_shift(None, shifts(latency(0.1), judged=False), quantile=3, floor=0.01) is None


def test_a_faster_curve_is_no_shift() -> None:
    sizes = shifts(latency(-0.3), judged=False)
    assert curve_shift(CURVE, sizes, quantile=3.0, floor=0.05) is None

"""The shapes of a regression: named right through noise, and none named in noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from busbw.judge import Curve, fit
from busbw.judge.regression_shape import curve_shift, locate
from busbw.model import MIB, RegressionShape
from tests.judge.simulated import CURVE, SIZES, Ratio, at, bandwidth, latency, shifts

# Thousands of simulated curves.
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

THREE = (MIB, 4 * MIB, 16 * MIB)
SEEDS = 500


def _named(ratio: Ratio, sizes: Sequence[int] = SIZES, curve: Curve | None = CURVE) -> Counter[str]:
    found = (locate(curve, shifts(ratio, sizes, seed=seed)) for seed in range(SEEDS))
    return Counter(one.kind.name if one else "" for one in found)


FIFTEEN = [
    pytest.param(latency(0.15), RegressionShape.LATENCY, id="latency"),
    pytest.param(bandwidth(0.15), RegressionShape.BANDWIDTH, id="bandwidth"),
    pytest.param(at(0.15, *SIZES), RegressionShape.ALL, id="all"),
    pytest.param(at(0.15, SIZES[0]), RegressionShape.ONE_SIZE, id="smallest"),
    pytest.param(at(0.15, SIZES[4]), RegressionShape.ONE_SIZE, id="middle"),
    pytest.param(at(0.15, SIZES[8]), RegressionShape.ONE_SIZE, id="largest"),
    pytest.param(at(0.15, *SIZES[2:]), RegressionShape.SWITCH, id="from-16K"),
    pytest.param(at(0.15, *SIZES[:7]), RegressionShape.SWITCH, id="to-4M"),
    pytest.param(at(0.15, SIZES[0], SIZES[3], SIZES[6]), RegressionShape.SEVERAL, id="several"),
]


@pytest.mark.parametrize(("ratio", "kind"), FIFTEEN)
def test_fifteen_percent_through_three_percent_of_noise_is_named_right_in_19_of_20(
    ratio: Ratio, kind: RegressionShape
) -> None:
    assert _named(ratio)[kind.name] >= 0.95 * SEEDS


@pytest.mark.parametrize("curve", [None, CURVE], ids=["no-curve", "curve"])
@pytest.mark.parametrize(
    ("slow", "kind"),
    [(THREE, RegressionShape.ALL), *(((size,), RegressionShape.ONE_SIZE) for size in THREE)],
)
def test_three_sizes_are_enough_for_all_and_for_one(
    slow: tuple[int, ...], kind: RegressionShape, curve: Curve | None
) -> None:
    assert _named(at(0.15, *slow), THREE, curve)[kind.name] >= 0.95 * SEEDS


@pytest.mark.parametrize(
    ("ratio", "kind"),
    [
        (latency(2.0), RegressionShape.LATENCY),
        (bandwidth(2.0), RegressionShape.BANDWIDTH),
        (at(2.0, *SIZES), RegressionShape.ALL),
    ],
    ids=["latency", "bandwidth", "all"],
)
def test_three_times_is_named_right_where_caches_bend_the_curve(
    ratio: Ratio, kind: RegressionShape
) -> None:
    bent = {s: CURVE.seconds(s) + max(0, s - 2**20) / 4e9 + max(0, s - 2**25) / 2e9 for s in SIZES}
    curve = fit(bent)
    assert curve is not None
    assert _named(ratio, curve=curve)[kind.name] >= 0.95 * SEEDS


def test_a_curve_of_other_times_does_not_hide_a_step_far_from_its_half_payload() -> None:
    """At 1M half of the time is latency; the step is at 16K."""
    curve = Curve(latency_s=1e-3, bandwidth_bytes_per_s=1e9, rms_log_error=0.0)
    assert _named(at(0.15, *SIZES[:3]), curve=curve)["SWITCH"] >= 0.95 * SEEDS


def test_a_step_two_sizes_beyond_the_half_payload_is_named_in_9_of_10() -> None:
    assert _named(at(0.15, *SIZES[6:]))["SWITCH"] >= 0.9 * SEEDS


def test_a_step_at_the_half_payload_is_a_step_or_the_part_of_the_curve_that_it_looks_like() -> None:
    named = _named(at(0.15, *SIZES[4:]))
    assert named["SWITCH"] + named["BANDWIDTH"] >= 0.95 * SEEDS


def test_without_a_curve_neither_latency_nor_bandwidth_is_named() -> None:
    named = _named(latency(0.15), curve=None) + _named(bandwidth(0.15), curve=None)
    assert not named["LATENCY"] + named["BANDWIDTH"]


def test_sizes_on_one_side_of_the_half_payload_do_not_tell_bandwidth_from_all() -> None:
    assert set(_named(at(0.15, *SIZES[5:]), SIZES[5:])) <= {"ALL", "SWITCH", "SEVERAL"}


def _shifted(ratio: Ratio, *, seeds: int = SEEDS, floor: float = 0.02) -> Counter[str]:
    noisy = (shifts(ratio, seed=seed, judged=False) for seed in range(seeds))
    found = (curve_shift(CURVE, one, quantile=3.0, floor=floor) for one in noisy)
    return Counter(one.kind.name if one else "" for one in found)


def test_pure_noise_is_a_shift_in_no_more_than_1_of_100_seeds() -> None:
    assert _shifted(lambda size: 1.0, seeds=1000)[""] >= 990


@pytest.mark.parametrize(
    ("ratio", "name"),
    [(latency(0.1), "LATENCY"), (bandwidth(0.1), "BANDWIDTH"), (at(0.1, *SIZES), "ALL")],
    ids=["latency", "bandwidth", "all"],
)
def test_ten_percent_that_no_size_shows_is_a_shift_of_the_curve(ratio: Ratio, name: str) -> None:
    assert _shifted(ratio)[name] >= 0.9 * SEEDS

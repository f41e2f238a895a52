"""The curve t = latency + S / bandwidth, and shifts of the curve over the payloads."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.judge.curve import curve_shift_text, fit_curve
from busbw.model.verdict import Curve, Verdict
from busbw.model.words import MIB, Outcome
from tests.helpers import build

LATENCY_S, BANDWIDTH = 50e-6, 3.4e9
SIZES = tuple(1024 * 4**step for step in range(9))
CURVE = Curve(latency_s=LATENCY_S, bandwidth_bytes_per_s=BANDWIDTH, rms_log_error=0.0)


def _points(sizes: tuple[int, ...] = SIZES, **changed: float) -> dict[int, float]:
    latency_s = changed.get("latency_s", LATENCY_S)
    return {size: latency_s + size / changed.get("bandwidth", BANDWIDTH) for size in sizes}


def _fit(points: Mapping[int, float]) -> Curve:
    curve = fit_curve(points)
    assert curve is not None
    return curve


def test_fitting_the_times_of_a_curve_gives_its_latency_and_bandwidth() -> None:
    curve = _fit(_points())
    assert pytest.approx(LATENCY_S, rel=1e-3) == curve.latency_s
    assert pytest.approx(BANDWIDTH, rel=1e-3) == curve.bandwidth_bytes_per_s
    assert curve.rms_log_error < 1e-3


def test_the_latency_share_of_a_payload_is_the_latency_divided_by_the_time_of_the_curve() -> None:
    curve = Curve(latency_s=1e-3, bandwidth_bytes_per_s=1e9, rms_log_error=0.0)
    assert pytest.approx(0.25) == curve.latency_share(3_000_000)


def test_the_order_of_the_points_does_not_change_the_fitted_curve() -> None:
    points = _points()
    assert fit_curve(dict(reversed(points.items()))) == fit_curve(points)


@pytest.mark.parametrize("size", [SIZES[0], SIZES[3], SIZES[4], SIZES[8]])
@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_one_payload_with_a_wrong_time_changes_the_fitted_curve_by_less_than_5_percent(
    size: int, factor: float
) -> None:
    points = _points()
    points[size] *= factor
    curve = _fit(points)
    assert pytest.approx(LATENCY_S, rel=0.05) == curve.latency_s
    assert pytest.approx(BANDWIDTH, rel=0.05) == curve.bandwidth_bytes_per_s
    assert pytest.approx(math.log(3) / 3, rel=0.1) == curve.rms_log_error


def test_noise_of_5_percent_changes_the_fitted_curve_by_less_than_15_percent() -> None:
    for seed in range(50):
        source = random.Random(seed)
        curve = _fit({size: t * math.exp(source.gauss(0, 0.05)) for size, t in _points().items()})
        assert pytest.approx(LATENCY_S, rel=0.15) == curve.latency_s
        assert pytest.approx(BANDWIDTH, rel=0.15) == curve.bandwidth_bytes_per_s


def test_noise_of_3_percent_changes_a_fitted_curve_with_bends_by_less_than_15_percent() -> None:
    """Each byte costs more beyond 1M and again beyond 32M, as on a CPU with caches."""
    bent = {
        size: t + max(0, size - 2**20) / 4e9 + max(0, size - 2**25) / 2e9
        for size, t in _points(tuple(1024 * 2**step for step in range(21))).items()
    }
    still = _fit(bent)
    for seed in range(20):
        source = random.Random(seed)
        curve = _fit({size: t * math.exp(source.gauss(0, 0.03)) for size, t in bent.items()})
        assert pytest.approx(still.latency_s, rel=0.15) == curve.latency_s
        assert pytest.approx(still.bandwidth_bytes_per_s, rel=0.15) == curve.bandwidth_bytes_per_s


def test_the_fitted_curve_of_times_in_proportion_to_the_payload_has_no_latency() -> None:
    curve = _fit(_points(latency_s=0.0))
    assert pytest.approx(0.0, abs=1e-9) == curve.latency_s
    assert pytest.approx(BANDWIDTH, rel=1e-3) == curve.bandwidth_bytes_per_s


@pytest.mark.parametrize("sizes", [(), SIZES[:3], (1024, 2048, 4096, 8192)])
def test_too_few_payloads_or_payloads_that_are_too_close_give_no_curve(
    sizes: tuple[int, ...],
) -> None:
    assert fit_curve(_points(sizes)) is None


def test_four_payloads_over_a_factor_of_16_give_a_curve() -> None:
    assert fit_curve(_points((2**16, 2**17, 2**18, 2**20))) is not None


def test_times_that_do_not_grow_with_the_payload_give_no_curve() -> None:
    assert fit_curve({size: 1e-3 for size in SIZES}) is None
    curves = [
        fit_curve(
            {
                size: 1e-3 * math.exp(random.Random(seed * 100 + step).gauss(0, 0.05))
                for step, size in enumerate(SIZES)
            }
        )
        for seed in range(50)
    ]
    assert curves.count(None) >= 48


def test_times_that_fall_with_the_payload_give_no_curve() -> None:
    assert fit_curve({size: 1 / size for size in SIZES}) is None


@given(st.dictionaries(st.integers(1, 2**34), st.floats(1e-9, 1e4), min_size=4, max_size=24))
def test_any_times_give_no_curve_or_a_curve_with_finite_latency_and_bandwidth(
    points: dict[int, float],
) -> None:
    curve = fit_curve(points)
    assert curve is None or (
        0 <= curve.latency_s < math.inf
        and 0 < curve.bandwidth_bytes_per_s < math.inf
        and 0 <= curve.rms_log_error < math.inf
    )


@given(st.floats(1e-3, 1e3))
def test_times_multiplied_by_a_factor_multiply_the_latency_and_divide_the_bandwidth_by_it(
    factor: float,
) -> None:
    source = random.Random(7)
    points = {size: t * math.exp(source.gauss(0, 0.1)) for size, t in _points().items()}
    first, other = _fit(points), _fit({size: t * factor for size, t in points.items()})
    assert pytest.approx(first.latency_s * factor, rel=1e-6) == other.latency_s
    assert pytest.approx(first.bandwidth_bytes_per_s / factor) == other.bandwidth_bytes_per_s


ERROR = 0.03

Ratio = Callable[[int], float]


def latency(change: float) -> Ratio:
    return lambda size: 1 + change * CURVE.latency_share(size)


def bandwidth(change: float) -> Ratio:
    return lambda size: 1 + change * (1 - CURVE.latency_share(size))


def slower_at(change: float, *slow: int) -> Ratio:
    return lambda size: 1 + change * (size in slow)


def shifts(
    ratio: Ratio,
    sizes: Sequence[int] = SIZES,
    *,
    seed: int | None = None,
    error: float = ERROR,
    judged: bool = True,
) -> list[Verdict]:
    """Return verdicts of payloads slower by `ratio`, with noise if there is a seed."""
    source = random.Random(seed)
    ratios = [
        math.log(ratio(s)) + (source.gauss(0, error) if seed is not None else 0.0) for s in sizes
    ]
    return [
        build.verdict(
            Outcome.REGRESSED if judged and ratio > 2 * error else Outcome.PASS,
            spec=build.spec(payload_bytes=size),
            ratio=math.exp(ratio),
            ratio_error=error,
        )
        for size, ratio in zip(sizes, ratios)
    ]


THREE = (MIB, 4 * MIB, 16 * MIB)
WORDS = {"the latency ": "LATENCY", "the bandwidth ": "BANDWIDTH", "all payloads ": "ALL"}


def _name(text: str) -> str:
    """Return which part of the curve a text calls slower."""
    return next((name for words, name in WORDS.items() if text.startswith(words)), "SIZES")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (latency(0.1), "the latency grew by 10 %"),
        (latency(1.5), "the latency grew to 2.5 x"),
        (
            bandwidth(0.25),
            "the bandwidth fell by 20 %",
        ),
        (slower_at(0.15, *SIZES), "all payloads are slower, by 15 %"),
        (slower_at(1.4, *SIZES), "all payloads are slower, to 2.4 x"),
    ],
)
def test_a_shift_of_a_curve_says_whether_latency_bandwidth_or_all_payloads_are_slower(
    ratio: Ratio, text: str
) -> None:
    sizes = shifts(ratio, judged=False)
    shift = curve_shift_text(CURVE, sizes, least_errors=3.0, least_change=0.05)
    assert shift == f"{text}; no single payload shows it"


@pytest.mark.parametrize(
    ("sizes", "quantile", "floor"),
    [
        (shifts(latency(0.1), judged=False), 3.0, 0.12),
        (shifts(latency(0.1), judged=False), 10.0, 0.02),
        (shifts(latency(0.15)), 3.0, 0.05),
        (shifts(slower_at(0.4, SIZES[8]), judged=False), 3.0, 0.05),
        (shifts(latency(-0.3), judged=False), 3.0, 0.05),
        (shifts(latency(0.1), SIZES[:1], judged=False), 3.0, 0.05),
        ([], 3.0, 0.05),
    ],
    ids=["floor", "error", "judged", "one size", "faster", "a single size", "none"],
)
def test_a_small_noisy_already_judged_or_faster_change_is_no_shift_of_a_curve(
    sizes: list[Verdict], quantile: float, floor: float
) -> None:
    assert curve_shift_text(CURVE, sizes, least_errors=quantile, least_change=floor) == ""
    assert curve_shift_text(None, sizes, least_errors=quantile, least_change=floor) == ""


# Thousands of simulated curves.
SEEDS = 500


def _shifted(ratio: Ratio, seeds: int = SEEDS) -> Counter[str]:
    noisy = (shifts(ratio, seed=seed, judged=False) for seed in range(seeds))
    texts = (curve_shift_text(CURVE, sizes, least_errors=3.0, least_change=0.02) for sizes in noisy)
    return Counter(_name(text) if text else "" for text in texts)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_pure_noise_is_a_shift_of_a_curve_in_at_most_one_of_a_hundred_simulations() -> None:
    assert _shifted(lambda size: 1.0, seeds=1000)[""] >= 990


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("ratio", "name"),
    [(latency(0.1), "LATENCY"), (bandwidth(0.1), "BANDWIDTH"), (slower_at(0.1, *SIZES), "ALL")],
)
def test_a_loss_of_10_percent_that_no_single_payload_shows_is_found_as_a_shift_of_the_curve(
    ratio: Ratio, name: str
) -> None:
    assert _shifted(ratio)[name] >= 0.8 * SEEDS

"""The rules that are replayed, at and beyond their limits, and how shares are said."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.words import MIB
from evidence.replay import Draw, Outcome
from evidence.rules import OTHERS, mann_whitney_p, stored
from evidence.shares import bootstrapped, clopper_pearson, percent, wilson

from .synthetic import draw, side

RCCL = "ROCm/cvs RCCL paired, 7 pairs"
LIMITS = {
    "pytest-benchmark mean:10%, stored run": 1.10,
    "pytest-benchmark min:10%, stored run": 1.10,
    "pytest-benchmark mean:10%, same session": 1.10,
    "pytest-benchmark min:10%, same session": 1.10,
    "asv continuous": 1.10,
    "XLA presubmit, 30 %": 1.30,
    "github-action-benchmark, 200 %": 2.0,
    RCCL: 1 / (1 - 0.125),
}


def _draw(factors: dict[int, float], *, launches: int = 7, stored: float = 1.0) -> Draw:
    return draw({size: [one] * launches for size, one in factors.items()}, [stored] * 6)


def _same(factor: float) -> Draw:
    return _draw({1024: factor, MIB: factor, 16 * MIB: factor})


@pytest.mark.parametrize("name", OTHERS)
def test_a_rule_alarms_just_beyond_its_limit_only(name: str) -> None:
    rule = OTHERS[name]
    for factor in (0.3, 1.0, LIMITS[name] - 0.002):
        assert rule(_same(factor)) is Outcome.CLEAR
    assert rule(_same(LIMITS[name] + 0.002)) is Outcome.ALARM


@pytest.mark.parametrize("name", sorted(set(OTHERS) - {RCCL}))
def test_one_slow_payload_is_enough(name: str) -> None:
    assert OTHERS[name](_draw({1024: 1.0, MIB: 2.5})) is Outcome.ALARM


@pytest.mark.parametrize("name", [name for name in OTHERS if "py" in name])
def test_only_a_stored_run_knows_another_session(name: str) -> None:
    expected = Outcome.ALARM if "same" in name else Outcome.CLEAR
    assert OTHERS[name](_draw({1024: 1.2}, stored=1.2)) is expected


@pytest.mark.parametrize(("name", "launches"), [("asv continuous", 2), (RCCL, 7)])
def test_a_rule_with_too_few_launches_is_undecided(name: str, launches: int) -> None:
    factors = {1024: 3.0, MIB: 3.0}
    assert OTHERS[name](_draw(factors, launches=launches - 1)) is Outcome.UNDECIDED
    assert OTHERS[name](_draw(factors, launches=launches)) is Outcome.ALARM


@pytest.mark.parametrize(
    ("factors", "outcome"),
    [
        ({1024: 3.0, MIB: 1.0, 16 * MIB: 3.0}, Outcome.CLEAR),
        ({1024: 3.0, MIB: 3.0, 16 * MIB: 1.0}, Outcome.ALARM),
        ({2 * MIB: 1.07, 4 * MIB: 1.07}, Outcome.ALARM),
        ({2 * MIB: 1.06, 4 * MIB: 1.06}, Outcome.CLEAR),
        ({128 * MIB: 1.04, 256 * MIB: 1.04}, Outcome.ALARM),
        ({128 * MIB: 1.03, 256 * MIB: 1.03}, Outcome.CLEAR),
    ],
)
def test_rccl_wants_adjacent_payloads_each_beyond_its_tier(
    factors: dict[int, float], outcome: Outcome
) -> None:
    assert OTHERS[RCCL](_draw(factors)) is outcome


def test_rccl_wants_quartiles_apart() -> None:
    factors = [0.9] * 3 + [1.3] * 4
    assert OTHERS[RCCL](draw({1024: factors, MIB: factors})) is Outcome.CLEAR


@pytest.mark.parametrize("shift", [0.0, 0.3, -1.0])
@pytest.mark.parametrize("sizes", [(21, 21), (30, 50), (100, 10)])
def test_samples_have_the_normal_p_of_scipy(sizes: tuple[int, int], shift: float) -> None:
    chance = random.Random(f"{sizes}")
    first, second = ([chance.gauss(shift * i, 1) for _ in range(n)] for i, n in enumerate(sizes))
    scipy = importlib.import_module("scipy.stats")
    expected = scipy.mannwhitneyu(first, second, method="asymptotic", use_continuity=False).pvalue
    assert mann_whitney_p(first, second) == pytest.approx(expected, rel=1e-9)
    assert mann_whitney_p(second, first) == pytest.approx(expected, rel=1e-9)


def test_ties_count_against_a_difference() -> None:
    assert mann_whitney_p([1.0] * 26, [1.0] * 26) == 1.0
    apart, tied = ([*range(26)], [*range(26, 52)]), ([*range(26)], [*range(25, 51)])
    assert mann_whitney_p(*apart) < mann_whitney_p(*tied)


SIZES = tuple(1024 << power for power in range(7))
# Sessions of a shared machine, of which one may take twice as long as another.
STORED = (1.0, 1.1, 0.95, 1.05, 0.9, 1.0)


def _own_draw(factor: float, fourth: Sequence[float] | None = None) -> Draw:
    """Nine launches of each payload, all of one factor, or those of the fourth of others."""
    factors: dict[int, Sequence[float]] = dict.fromkeys(SIZES, [factor] * 9)
    return draw({**factors, SIZES[3]: fourth or factors[SIZES[3]]}, STORED)


@pytest.mark.parametrize("factor", [0.3, 0.9, 1.0, 1.1])
def test_a_machine_in_another_mood_is_clear(factor: float) -> None:
    assert stored(_own_draw(factor)) is Outcome.CLEAR


def test_one_slow_payload_is_enough_own() -> None:
    assert stored(_own_draw(1.0, [2.5] * 9)) is Outcome.ALARM


def test_a_suspicion_that_is_not_seen_again_is_none() -> None:
    assert stored(_own_draw(1.0, [2.5] * 3 + [1.0] * 6)) is Outcome.CLEAR
    assert stored(_own_draw(1.0, [2.5] * 6 + [1.0] * 3)) is Outcome.ALARM


def test_one_that_cannot_be_seen_again_is_counted_against_the_rule() -> None:
    whole = _own_draw(1.0, [2.5] * 3 + [1.0] * 6)
    short = {payload: launches[:5] for payload, launches in whole.pairs.items()}
    assert stored(replace(whole, pairs=short)) is Outcome.ALARM


def test_all_payloads_slower_together_is_an_alarm() -> None:
    assert stored(_own_draw(2.2)) is Outcome.ALARM
    assert stored(_own_draw(1.5)) is Outcome.CLEAR


def test_accepted_sessions_far_from_the_first_make_no_level() -> None:
    wild = (1.0, 0.2, 5.0, 0.2, 5.0, 1.0)
    assert stored(draw({1024: [1.0] * 9, MIB: [1.0] * 9}, wild)) is Outcome.CLEAR


def test_a_reference_that_was_measured_beside_it_says_nothing() -> None:
    slow = _own_draw(2.5)
    pairs = {
        payload: tuple(replace(one, reference=side(2.5)) for one in launches)
        for payload, launches in slow.pairs.items()
    }
    assert stored(replace(slow, pairs=pairs)) is Outcome.ALARM


@pytest.fixture(scope="module")
def scipy() -> Any:
    """SciPy's statistics, which take a second to import."""
    return importlib.import_module("scipy.stats")


@pytest.mark.parametrize(("method", "ours"), [("exact", clopper_pearson), ("wilson", wilson)])
@pytest.mark.parametrize(
    ("found", "among"), [(0, 1), (0, 40), (1, 40), (13, 40), (40, 40), (7, 2000), (1999, 2000)]
)
def test_the_interval_is_scipys(scipy: Any, found: int, among: int, method: str, ours: Any) -> None:
    expected = scipy.binomtest(found, among).proportion_ci(confidence_level=0.95, method=method)
    assert ours(found, among) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_the_bootstrap_lies_around_the_pooled_share_and_is_always_the_same() -> None:
    counts = [(one, 10) for one in (2, 5, 8, 5, 4, 6, 5, 5)]
    lower, upper = bootstrapped(counts, seed="1")
    assert 0.3 < lower < 0.5 < upper < 0.7
    assert (lower, upper) == bootstrapped(counts, seed="1") != bootstrapped(counts, seed="2")


def test_sessions_that_all_agree_count_once_each() -> None:
    assert bootstrapped([(0, 100)] * 5, seed="1") == clopper_pearson(0, 5)
    assert bootstrapped([(100, 100)] * 5, seed="1") == clopper_pearson(5, 5)
    lower, upper = bootstrapped([(0, 10), (10, 10)] * 4, seed="1")
    assert 0 < lower < 0.5 < upper < 1


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0005, "0.05 %"),
        (0.004, "0.4 %"),
        (0.02, "2 %"),
        (0.088, "8.8 %"),
        (0.123, "12 %"),
        (0.9, "90 %"),
        (0.996, "99.6 %"),
        (1, "100 %"),
    ],
)
def test_a_share_has_decimals_near_the_ends_only(share: float, text: str) -> None:
    assert percent(share) == text

"""The rules of other tools: at, below and beyond each of their limits."""

from __future__ import annotations

import importlib
import random

import pytest

from busbw.model.words import MIB
from evidence.others import OTHERS, mann_whitney_p
from evidence.replay import Draw, Outcome

from .synthetic import draw

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

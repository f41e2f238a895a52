"""Simulated pairs: what is drawn, what comes of it, and that the rule keeps to its error rates."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from busbw.judge import paired
from busbw.model import Outcome
from evidence.own import POLICY
from evidence.pairs import CASES, NOISES, Answers, Case, Noise, session, table

pytestmark = pytest.mark.exhaustive

MIXED = Noise(least=0.01, most=0.06)
STEADY = Noise(least=0.05, most=0.05)


def _sessions(noise: Noise, cases: int, number: int) -> list[Answers]:
    chance = random.Random(20260105)
    return [session(noise, cases, chance) for _ in range(number)]


def test_a_case_has_the_noise_that_was_asked_for() -> None:
    for outliers, deviation in ((0.0, 0.05), (0.05, 0.05 * math.sqrt(0.95 + 0.05 * 9))):
        case = Case(Noise(least=0.05, most=0.05, outliers=outliers), random.Random(1))
        assert statistics.stdev(case.shifts(4000)) == pytest.approx(deviation, rel=0.05)


def test_pairs_that_were_drawn_stay_when_more_are_wanted() -> None:
    case = Case(MIXED, random.Random(1))
    first = case.shifts(6)
    assert case.shifts(9)[:6] == first


def test_a_noise_says_its_size_and_its_outliers() -> None:
    assert [noise.text for noise in (STEADY, MIXED)] == ["5 %", "1 to 6 %"]
    assert Noise(least=0.03, most=0.03, outliers=0.05).text == "3 %, 5 % outliers"


def test_every_number_of_cases_has_a_row_for_each_noise() -> None:
    lines = list(table(1, seed=1))
    assert len(lines) == 2 + len(CASES) * len(NOISES)
    assert {line.count("|") for line in lines} == {10}


@pytest.mark.slow
@pytest.mark.parametrize("noise", [STEADY, MIXED], ids=lambda one: one.text)
@pytest.mark.parametrize("cases", CASES)
def test_hardly_any_unchanged_session_alarms_or_stays_undecided(cases: int, noise: Noise) -> None:
    found = [one.unchanged for one in _sessions(noise, cases, 1200 // cases)]
    outcomes = [case.outcome for one in found for case in one]
    alarms = sum(Outcome.REGRESSED in [case.outcome for case in one] for one in found)
    assert alarms <= 0.01 * len(found) + 1
    assert outcomes.count(None) < 0.01 * len(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [True, False])
def test_what_is_worth_seeing_passes_in_one_case_of_ten_at_most(prior: bool) -> None:
    """Of noise so large that hardly anything but the rate stops it from passing."""
    chance = random.Random(20260106)
    passed, cases = 0, 30 * 20
    for _ in range(cases // 20):
        drawn = [Case(Noise(least=0.08, most=0.08), chance) for _ in range(20)]
        first = [one.shifts(POLICY.looks.counts[0]) for one in drawn]
        known = paired.prior_of(first, POLICY.looks) if prior else None
        for one in drawn:
            answer = one.answer(20, known, slower=POLICY.looks.wanted)
            passed += answer.outcome is Outcome.PASS
    assert passed / cases < 0.10 + 3 * math.sqrt(0.1 * 0.9 / cases)

"""Error rates of the rule for interleaved stacks on simulated sessions of known noise."""

from __future__ import annotations

import math
import random

import pytest

from busbw.judge.paired import decide_paired_case, prior_variance_from_log_ratios
from busbw.judge.policy import POLICIES
from busbw.model.words import DeviceClass, Outcome
from busbw.stats.launches import Variance

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow]

LOOKS = POLICIES[DeviceClass.CPU].looks


class Case:
    """A simulated case whose shifts are drawn as they are needed."""

    def __init__(self, deviation: float, chance: random.Random) -> None:
        self._deviation, self._chance = deviation, chance
        self._shifts: list[float] = []

    def shifts(self, pairs: int) -> list[float]:
        missing = pairs - len(self._shifts)
        self._shifts += [self._chance.gauss(0.0, self._deviation) for _ in range(missing)]
        return self._shifts[:pairs]

    def outcome(self, cases: int, prior: Variance | None, slower: float = 0.0) -> Outcome | None:
        """Return the outcome as one of `cases`, measured as often as the rule needs."""
        pairs = LOOKS.pair_counts[0]
        while True:
            shifts = [shift + math.log1p(slower) for shift in self.shifts(pairs)]
            decision = decide_paired_case(
                shifts, LOOKS, case_count=cases, min_loss=LOOKS.min_loss, prior_variance=prior
            )
            if decision.pair_count_at_next_look is None:
                return decision.outcome
            pairs = decision.pair_count_at_next_look


def _prior(cases: list[Case]) -> Variance | None:
    return prior_variance_from_log_ratios(
        [case.shifts(LOOKS.pair_counts[0]) for case in cases], LOOKS
    )


@pytest.mark.parametrize(("least", "most"), [(0.05, 0.05), (0.01, 0.06)])
@pytest.mark.parametrize("number", [3, 17, 42])
def test_simulated_sessions_of_an_unchanged_candidate_rarely_regress_or_stay_undecided(
    number: int, least: float, most: float
) -> None:
    chance, outcomes, alarms = random.Random(20260105), list[Outcome | None](), 0
    sessions = 1200 // number
    for _ in range(sessions):
        drawn = (chance.uniform(math.log(least), math.log(most)) for _ in range(number))
        cases = [Case(math.exp(log_deviation), chance) for log_deviation in drawn]
        shared_prior = _prior(cases)
        ends = [case.outcome(number, shared_prior) for case in cases]
        alarms += Outcome.REGRESSED in ends
        outcomes += ends
    assert alarms <= 0.01 * sessions + 1
    assert outcomes.count(None) < 0.01 * len(outcomes)


@pytest.mark.parametrize("prior", [True, False])
def test_at_most_about_one_of_ten_noisy_cases_with_a_detectable_loss_passes(
    prior: bool,
) -> None:
    """Let noise be so high that hardly more than the error rate of the rule keeps a case red."""
    chance, passed, sessions, number = random.Random(20260106), 0, 30, 20
    for _ in range(sessions):
        cases = [Case(0.08, chance) for _ in range(number)]
        shared_prior = _prior(cases) if prior else None
        ends = [case.outcome(number, shared_prior, slower=LOOKS.detectable_loss) for case in cases]
        passed += ends.count(Outcome.PASS)
    share = passed / (sessions * number)
    assert share < 0.10 + 3 * math.sqrt(0.1 * 0.9 / (sessions * number))

"""Two interleaved stacks: pairs of launches, verdicts, memory, and the sequential rule."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.judge.case import JudgingSettings
from busbw.judge.paired import (
    decide_paired_case,
    judge_paired_case,
    pair_launches,
    prior_variance_from_log_ratios,
    prior_variance_from_measurements,
)
from busbw.judge.policy import POLICIES, SequentialTestThresholds
from busbw.model.launch import Measurement, Run
from busbw.model.machine import Protocol
from busbw.model.words import Clock, DeviceClass, Outcome, OutOfMemoryDetection
from busbw.stats.launches import Variance
from tests.helpers import build
from tests.unit.judge.rules import LOOKS, POLICY

TERMS = JudgingSettings(policy=POLICY, planned_launch_count=6)
SAMPLES = (1e-3, 1.01e-3, 1.02e-3, 1.01e-3)
STATES = (1.0, 1.3, 0.9, 1.1, 2.0, 1.05, 1.2, 0.95, 1.6, 1.0, 1.1, 1.4)


def _runs(side: str, factor: float, number: int, *samples_s: float) -> tuple[Run, ...]:
    """Return launches `factor` times as long, scaled by the state of the machine in each round."""
    return tuple(
        build.run(
            *(
                STATES[i] * factor * (1 + 0.002 * (i % 3)) ** (side == "candidate") * s
                for s in launch_s
            ),
            launch=f"{i + 1}.jax.{side}",
        )
        for i, launch_s in enumerate([samples_s or SAMPLES] * number)
    )


def _side(side: str, factor: float, number: int, *samples_s: float) -> Measurement:
    return Measurement(case=build.case(), runs=_runs(side, factor, number, *samples_s))


def _judged(candidate: Measurement, reference: Measurement, terms: JudgingSettings = TERMS) -> Any:
    """Return the interim verdict, typed so that a test needs no check for None."""
    return judge_paired_case(build.spec(), reference, candidate, terms)


def _judge_factor(factor: float, number: int, terms: JudgingSettings = TERMS) -> Any:
    return _judged(_side("candidate", factor, number), _side("reference", 1.0, number), terms=terms)


def test_a_stack_interleaved_with_itself_passes_even_if_the_speed_of_the_machine_varies() -> None:
    interim = _judge_factor(1.0, 6)
    assert Outcome.PASS is interim.verdict.outcome
    assert (
        interim.needed_launch_count,
        interim.is_suspected,
        interim.verdict.failed,
    ) == (
        None,
        False,
        False,
    )
    assert interim.verdict.ratio == pytest.approx(1.0, abs=0.01)
    assert "x the interleaved reference (95 %: " in interim.verdict.text
    assert "6 pairs of launches" in interim.verdict.text


def test_the_verdict_on_two_stacks_has_both_times_and_a_ratio_with_its_interval_and_error() -> None:
    verdict = _judge_factor(1.0, 6).verdict
    assert len(verdict.now.times_s) == len(verdict.baseline.times_s) == 6
    assert verdict.ratio_interval[0] < verdict.ratio < verdict.ratio_interval[1]
    assert 0 < verdict.ratio_error < 0.01
    assert verdict.limit >= 1.02


def test_a_slower_candidate_is_noisy_after_6_launches_and_has_regressed_after_9_launches() -> None:
    suspected = _judge_factor(1.1, 6)
    assert (suspected.needed_launch_count, suspected.is_suspected) == (9, True)
    assert suspected.verdict.outcome is Outcome.NOISY
    assert suspected.verdict.text.endswith("not yet confirmed")
    interim = _judge_factor(1.1, 9)
    assert (interim.verdict.outcome, interim.verdict.failed) == (
        Outcome.REGRESSED,
        True,
    )
    assert interim.verdict.ratio == pytest.approx(1.1, abs=0.01)
    assert interim.verdict.text.endswith(" x: confirmed")


def test_a_candidate_faster_than_its_interleaved_reference_has_improved() -> None:
    interim = _judge_factor(0.8, 6)
    assert (interim.verdict.outcome, interim.verdict.failed) == (
        Outcome.IMPROVED,
        False,
    )


def test_an_undecided_comparison_of_two_stacks_makes_the_case_noisy() -> None:
    wobbling = tuple(
        replace(run, samples_s=tuple(s * (1.3 if i % 2 else 0.8) for s in run.samples_s))
        for i, run in enumerate(_runs("candidate", 1.0, 6))
    )
    interim = _judged(Measurement(case=build.case(), runs=wobbling), _side("reference", 1.0, 6))
    assert (
        interim.verdict.outcome,
        interim.needed_launch_count,
        interim.is_suspected,
    ) == (
        Outcome.NOISY,
        9,
        False,
    )
    assert interim.verdict.text.endswith(": undecided")


def test_a_single_pair_of_launches_of_two_stacks_is_too_few_to_compare() -> None:
    interim = _judge_factor(1.0, 1, replace(TERMS, planned_launch_count=1))
    assert (interim.verdict.outcome, interim.needed_launch_count) == (
        Outcome.NOISY,
        2,
    )
    assert interim.verdict.text.endswith("1 pair of launches, too few to compare")
    assert interim.verdict.ratio is None


def test_two_stacks_are_first_compared_after_the_requested_number_of_launches() -> None:
    assert (
        _judge_factor(1.0, 2, replace(TERMS, planned_launch_count=2)).verdict.outcome
        is not Outcome.NOISY
    )
    assert _judge_factor(1.0, 6, replace(TERMS, planned_launch_count=7)).needed_launch_count == 7


def test_a_difference_of_two_stacks_below_the_resolution_of_the_clock_passes() -> None:
    terms = replace(TERMS, policy=replace(POLICY, host_clock_resolution_s=5e-4))
    assert Outcome.PASS is _judge_factor(1.1, 6, terms).verdict.outcome


def test_a_loss_below_the_resolution_of_the_host_clock_regresses_by_the_device_clock() -> None:
    terms = replace(TERMS, policy=replace(POLICY, host_clock_resolution_s=5e-4))
    case = build.case(protocol=Protocol(clock=Clock.DEVICE, program="fake"))
    reference = Measurement(case=case, runs=_runs("reference", 1e-3, 9))
    candidate = Measurement(case=case, runs=_runs("candidate", 1.1e-3, 9))
    assert Outcome.REGRESSED is _judged(candidate, reference, terms).verdict.outcome


def test_the_comparison_of_two_stacks_uses_the_noise_of_all_cases_of_the_session() -> None:
    pair = _side("reference", 1.0, 6), _side("candidate", 1.0, 6)
    broken = replace(pair[0], failures=(build.failure(),)), pair[1]
    assert prior_variance_from_measurements([pair, broken], TERMS) is None
    prior = prior_variance_from_measurements([pair] * 3, TERMS)
    assert prior is not None and prior.degrees_of_freedom == 2
    noisy = Variance(value=0.1**2, degrees_of_freedom=20.0)
    assert Outcome.PASS is judge_paired_case(build.spec(), *pair, TERMS, prior).verdict.outcome
    assert Outcome.NOISY is judge_paired_case(build.spec(), *pair, TERMS, noisy).verdict.outcome


def test_only_launches_of_two_stacks_in_the_same_round_are_paired() -> None:
    reference = _runs("reference", 1.0, 3)
    candidate = (*_runs("candidate", 1.0, 4)[1:], build.run(launch="2.jax.candidate.2"))
    pairs = pair_launches(reference, candidate)
    assert [(str(a.launch), str(b.launch)) for a, b in pairs] == [
        ("2.jax.reference", "2.jax.candidate"),
        ("3.jax.reference", "3.jax.candidate"),
        ("2.jax.reference", "2.jax.candidate.2"),
    ]


def test_a_failed_launch_of_either_stack_fails_the_case_and_the_text_names_the_reference() -> None:
    dead = Measurement(
        case=build.case(), runs=_runs("reference", 1.0, 5), failures=(build.failure(),)
    )
    ours = _judged(dead, _side("reference", 1.0, 6)).verdict
    assert (ours.outcome, ours.failed) == (Outcome.FAILED, True)
    assert ours.text == "crashed in 1 of 6 launches: it broke"
    assert (ours.now, ours.baseline, ours.ratio) == (None, None, None)
    theirs = _judged(_side("candidate", 1.0, 6), dead).verdict
    assert (theirs.outcome, theirs.failed) == (Outcome.FAILED, True)
    assert theirs.text == "the reference: crashed in 1 of 6 launches: it broke"


LACKING = build.measurement(
    failures=(build.out_of_memory(detected=OutOfMemoryDetection.PREDICTED, needed_bytes=2048),) * 6
)


def test_a_candidate_that_is_out_of_memory_fails_unless_its_reference_is_out_of_memory() -> None:
    ours = _judged(LACKING, _side("reference", 1.0, 6)).verdict
    both = _judged(LACKING, LACKING).verdict
    assert ours.outcome is both.outcome is Outcome.OUT_OF_MEMORY
    assert (ours.failed, ours.expected, both.failed, both.expected) == (True, False, False, True)
    assert ours.text == "needs 2.0 KiB (predicted before touching memory); the reference fits"
    assert ours.failure is not None and ours.baseline is not None
    assert "the reference's is too" in both.text


def test_a_case_that_fits_in_memory_only_with_the_candidate_has_improved() -> None:
    verdict = _judged(_side("candidate", 1.0, 6), LACKING).verdict
    assert (verdict.outcome, verdict.failed) == (Outcome.IMPROVED, False)
    assert verdict.text.startswith("it fits; the reference: needs 2.0 KiB")


SLOWER = math.log(1.1)
SESSIONS = 400
CASES = 3

Noise = Callable[[random.Random], float]


def _decided(*shifts: float, looks: SequentialTestThresholds = LOOKS, **options: Any) -> Any:
    """Return the decision on a case, typed so that a test needs no check for None."""
    return decide_paired_case(shifts, looks, **{"case_count": 1, "min_loss": 0.02, **options})


@pytest.mark.parametrize(
    ("shifts", "outcome", "next_look"),
    [
        ([], None, 6),
        ([0.0] * 5, None, 6),
        ([0.001, -0.001] * 3, Outcome.PASS, None),
        ([0.1, -0.1, 0.08, -0.06, 0.05, -0.04], None, 9),
        ([0.1, -0.1, 0.08, -0.06, 0.05, -0.04, 0.1, -0.1, 0.05], None, 12),
        ([0.2, -0.2] * 6, None, None),
        ([-SLOWER, -SLOWER - 0.01] * 3, Outcome.IMPROVED, None),
    ],
    ids=["no launch", "five launches", "equal", "unclear", "still unclear", "very noisy", "faster"],
)
def test_a_comparison_of_two_stacks_is_decided_or_needs_more_launches_until_the_last_look(
    shifts: list[float], outcome: Outcome | None, next_look: int | None
) -> None:
    decision = _decided(*shifts)
    assert (decision.outcome, decision.pair_count_at_next_look, decision.is_suspected) == (
        outcome,
        next_look,
        False,
    )
    is_before_first_look = len(shifts) < 6
    assert (decision.estimate is None) is is_before_first_look
    assert (decision.slower_above_log_ratio is None) is is_before_first_look


def test_the_mean_log_ratio_of_a_regression_between_two_stacks_is_above_its_limit() -> None:
    source = random.Random(5)
    called = 0
    for _ in range(300):
        shifts = [source.gauss(0.05, 0.03) for _ in range(15)]
        decision = _decided(*shifts)
        if decision.outcome is Outcome.REGRESSED:
            assert decision.estimate.mean > decision.slower_above_log_ratio
            called += 1
    assert called > 50


def test_a_candidate_that_is_slower_only_in_its_first_launches_has_not_regressed() -> None:
    slow = [SLOWER, SLOWER + 0.001] * 3
    decision = _decided(*slow, -0.1, -0.1, -0.1)
    assert decision.outcome is not Outcome.REGRESSED
    assert not decision.is_suspected


def test_a_candidate_that_is_slower_in_first_and_additional_launches_has_regressed() -> None:
    decision = _decided(*[SLOWER, SLOWER + 0.01] * 4, SLOWER)
    assert Outcome.REGRESSED is decision.outcome
    assert decision.estimate.degrees_of_freedom == 8
    assert decision.estimate.mean > decision.slower_above_log_ratio >= math.log1p(LOOKS.min_loss)


def test_a_candidate_that_is_not_slower_in_additional_launches_is_no_longer_suspected() -> None:
    moody = [SLOWER, SLOWER + 0.01] * 3
    dropped = _decided(*moody, 0.0, 0.0, 0.0)
    assert (dropped.outcome, dropped.pair_count_at_next_look, dropped.is_suspected) == (
        None,
        12,
        False,
    )
    calm = replace(LOOKS, pair_counts=(6, 40))
    assert Outcome.PASS is _decided(*moody, *[0.0] * 34, looks=calm).outcome


def test_a_loss_that_is_equal_in_all_pairs_and_below_the_minimum_loss_passes() -> None:
    assert Outcome.PASS is _decided(*[0.019] * 6).outcome
    assert _decided(*[0.021] * 6).is_suspected
    assert Outcome.PASS is _decided(*[0.2] * 6, min_loss=0.3).outcome


def test_the_limit_in_a_comparison_of_two_stacks_grows_with_the_number_of_cases() -> None:
    shifts = [0.03, 0.05, 0.04, 0.06, 0.02, 0.05]
    among = _decided(*shifts, case_count=1000)
    assert _decided(*shifts).slower_above_log_ratio < among.slower_above_log_ratio


def _six_shifts(deviation: float) -> list[float]:
    """Return six shifts with a mean of 0 and this standard deviation."""
    return [deviation * math.sqrt(5 / 6) * sign for sign in (1, -1) * 3]


def test_the_noise_of_a_session_is_not_estimated_from_a_single_noisy_case() -> None:
    assert prior_variance_from_log_ratios([_six_shifts(0.03)], LOOKS) is None
    assert prior_variance_from_log_ratios([_six_shifts(0.03), [0.0] * 6, [0.01] * 5], LOOKS) is None


def test_the_noise_estimate_of_equally_noisy_cases_has_at_most_20_degrees_of_freedom() -> None:
    for cases, degrees_of_freedom in ((2, 1), (3, 2), (17, 16), (42, 20)):
        prior: Any = prior_variance_from_log_ratios([_six_shifts(0.03)] * cases, LOOKS)
        assert prior.degrees_of_freedom == degrees_of_freedom
        assert 0.02**2 < prior.value < 0.04**2


def test_the_noise_estimate_of_very_differently_noisy_cases_has_few_degrees_of_freedom() -> None:
    prior = prior_variance_from_log_ratios(
        [_six_shifts(0.001 * 4**number) for number in range(8)], LOOKS
    )
    assert prior is not None and prior.degrees_of_freedom < 2


def test_launches_after_the_first_decision_do_not_change_the_noise_of_the_session() -> None:
    cases = [_six_shifts(0.03), _six_shifts(0.02), _six_shifts(0.05)]
    later = [[*shifts, 0.5, -0.5] for shifts in cases]
    assert prior_variance_from_log_ratios(later, LOOKS) == prior_variance_from_log_ratios(
        cases, LOOKS
    )


def test_the_noise_estimate_of_other_cases_lowers_the_limit_in_a_comparison_of_two_stacks() -> None:
    shifts = [0.08 + shift for shift in _six_shifts(0.03)]
    prior = Variance(value=0.03**2, degrees_of_freedom=20.0)
    alone = _decided(*shifts, case_count=42)
    among = _decided(*shifts, case_count=42, prior_variance=prior)
    assert among.slower_above_log_ratio < alone.slower_above_log_ratio / 2
    assert (alone.is_suspected, among.is_suspected) == (False, True)


def test_the_noise_of_other_cases_raises_the_standard_error_of_a_quiet_case_only() -> None:
    prior = Variance(value=0.03**2, degrees_of_freedom=20.0)
    for deviation, error in ((0.001, 0.03 * math.sqrt(20 / 25)), (0.06, 0.06)):
        estimate = _decided(*_six_shifts(deviation), prior_variance=prior).estimate
        assert estimate.standard_error == pytest.approx(error / math.sqrt(6), rel=1e-3)
        assert estimate.degrees_of_freedom == 25


def _normal(deviation: float) -> Noise:
    return lambda chance: chance.gauss(0.0, deviation)


def _heavy(deviation: float) -> Noise:
    """Student's t with three degrees of freedom, scaled to this standard deviation."""

    def draw(chance: random.Random) -> float:
        squares = sum(chance.gauss(0.0, 1.0) ** 2 for _ in range(3))
        return deviation * chance.gauss(0.0, 1.0) / math.sqrt(squares)

    return draw


def _ended(chance: random.Random, noise: Noise, slower: float) -> Outcome | None:
    """Return the outcome of a case that gets as many launches as the rule needs."""
    looks, shifts = POLICIES[DeviceClass.CPU].looks, list[float]()
    while True:
        decision = decide_paired_case(shifts, looks, case_count=CASES, min_loss=looks.min_loss)
        if decision.pair_count_at_next_look is None:
            return decision.outcome
        shifts += [
            slower + noise(chance) for _ in range(decision.pair_count_at_next_look - len(shifts))
        ]


@pytest.mark.parametrize("noise", [_normal(0.03), _normal(0.08), _heavy(0.03), _heavy(0.08)])
def test_fewer_than_one_of_a_hundred_simulated_sessions_of_an_unchanged_stack_regresses(
    noise: Noise,
) -> None:
    chance = random.Random(20260101)
    alarms = sum(
        Outcome.REGRESSED in [_ended(chance, noise, 0.0) for _ in range(CASES)]
        for _ in range(SESSIONS)
    )
    assert alarms / SESSIONS < 0.01


@pytest.mark.parametrize("noise", [_normal(0.05), _heavy(0.05)])
def test_a_candidate_that_takes_a_tenth_longer_regresses_in_most_simulated_cases(
    noise: Noise,
) -> None:
    chance = random.Random(20260102)
    outcomes = [_ended(chance, noise, math.log(1.1)) for _ in range(SESSIONS)]
    assert outcomes.count(Outcome.REGRESSED) > 0.95 * SESSIONS
    assert Outcome.PASS not in outcomes[: SESSIONS // 10]


def test_most_simulated_cases_of_an_unchanged_candidate_pass() -> None:
    chance = random.Random(20260103)
    outcomes = [_ended(chance, _normal(0.05), 0.0) for _ in range(SESSIONS)]
    assert outcomes.count(Outcome.PASS) > 0.95 * SESSIONS

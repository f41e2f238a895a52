"""The verdicts of a soak."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.extensions.soak.judge import (
    Tally,
    compared_text,
    judge_soak,
    judge_soak_session,
)
from busbw.extensions.soak.worker import SoakRun, WrongElement
from busbw.model.launch import LaunchId
from busbw.model.words import FailureKind, Outcome, SessionOutcome
from tests.helpers import build

CASE, SPEC = build.case(), build.spec()
LAUNCH = LaunchId(pass_number=3, framework="jax")
WRONG = WrongElement(
    draw=3,
    rank=2,
    element=77,
    iteration=41,
    expected=0x3F800000,
    actual=0x3F800008,
    repeats=3,
    retries=100,
)
MUCH = Tally(iterations=1_130_000, compared_bytes=2_600_000_000_000, soaked_s=600.0)


def test_without_corruption_the_text_has_the_amount_and_a_bound_for_the_error_rate() -> None:
    verdict = judge_soak(SPEC, CASE, MUCH)
    assert (verdict.outcome, verdict.failed) == (Outcome.PASS, False)
    assert verdict.text == (
        "1.1 million iterations, 2421.4 GiB compared, no corruption; error rate below 1 in "
        "380,000, 95 % confidence"
    )


def test_a_wrong_element_fails_with_rank_host_element_bits_and_how_often() -> None:
    tally = replace(MUCH, mismatch=WRONG, launch=LAUNCH, process=1)
    verdict = judge_soak(SPEC, CASE, tally, ["a", "b"])
    assert (verdict.outcome, verdict.failed) == (Outcome.FAILED, True)
    assert verdict.failure is not None
    assert verdict.failure.kind is FailureKind.WRONG_RESULT
    assert verdict.text == (
        "wrong result: rank 2 (b), element 77, iteration 41: 0x3f800008, expected 0x3f800000 "
        "(bit 3); the same input gave a wrong result in 3 of 100 more iterations"
    )
    several = replace(tally, mismatch=replace(WRONG, actual=0))
    text = judge_soak(SPEC, CASE, several).text
    assert "(bits 23, 24, 25, 26, 27, 28, 29)" in text


def test_what_fits_in_no_memory_is_no_failure_and_what_dies_is() -> None:
    lost = Tally().plus(build.failure(FailureKind.OUT_OF_MEMORY))
    assert judge_soak(SPEC, CASE, lost).outcome is Outcome.OUT_OF_MEMORY
    assert not judge_soak(SPEC, CASE, lost).failed
    dead = Tally().plus(build.failure(FailureKind.CRASHED))
    assert judge_soak(SPEC, CASE, dead).outcome is Outcome.FAILED
    assert judge_soak(SPEC, CASE, Tally()).outcome is Outcome.SKIPPED
    # As where it is timed: the compiler takes a wider dtype.
    wider = Tally().plus(build.failure(FailureKind.OTHER_DTYPE))
    assert judge_soak(SPEC, CASE, wider).outcome is Outcome.SKIPPED


def test_processes_of_a_group_run_the_same_iterations_and_each_compares_its_own_ranks() -> None:
    reply = SoakRun(launch=LAUNCH, iterations=10, compared_bytes=100, seconds=2.0)
    tally = Tally().plus(reply, 0).plus(replace(reply, mismatch=WRONG), 1)
    assert (tally.iterations, tally.compared_bytes, tally.soaked_s) == (10, 200, 2.0)
    assert (tally.mismatch, tally.process, tally.is_over) == (WRONG, 1, True)
    later = MUCH.plus(replace(reply, mismatch=WRONG))
    assert later.mismatch is not None
    # The number is that in all launches.
    assert later.mismatch.iteration == MUCH.iterations + WRONG.iteration


def test_a_session_is_fine_only_if_every_case_had_an_iteration() -> None:
    good = judge_soak(SPEC, CASE, MUCH)
    assert judge_soak_session([good], {CASE: MUCH}).outcome is SessionOutcome.PASS
    none = judge_soak_session([good], {CASE: MUCH, build.case(payload_bytes=1): Tally()})
    assert none.outcome is SessionOutcome.NO_VERDICT
    bad = replace(MUCH, mismatch=WRONG)
    failed = judge_soak_session([judge_soak(SPEC, CASE, bad)], {CASE: bad})
    assert failed.outcome is SessionOutcome.FAILED
    assert failed.text == "1 of 1 case failed; 1 case, 1.1 million iterations, 2421.4 GiB compared"
    assert judge_soak_session([], {}).outcome is SessionOutcome.NO_VERDICT


def test_a_skipped_case_beside_a_case_that_was_compared_changes_no_verdict() -> None:
    wider = Tally().plus(build.failure(FailureKind.OTHER_DTYPE))
    tallies = {CASE: wider, build.case(payload_bytes=1): MUCH}
    verdicts = [judge_soak(SPEC, case, tally) for case, tally in tallies.items()]
    assert judge_soak_session(verdicts, tallies).outcome is SessionOutcome.PASS


@pytest.mark.parametrize(
    ("iterations", "text"), [(1, "1 in 1.1"), (59, "1 in 20"), (10**6, "1 in 330,000")]
)
def test_the_bound_is_that_of_clopper_and_pearson(iterations: int, text: str) -> None:
    tally = Tally(iterations=iterations)
    assert f"error rate below {text}, " in compared_text([tally])

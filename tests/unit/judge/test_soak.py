"""What is said of a soak."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.judge.soak import amount_text, judge_soak, judge_soak_session, rare_text
from busbw.model.launch import LaunchId
from busbw.model.soak import Soaked, Tally, Wrong
from busbw.model.words import FailureKind, Outcome, SessionOutcome
from tests.helpers import build

CASE, SPEC = build.case(), build.spec()
LAUNCH = LaunchId(pass_number=3, framework="jax")
WRONG = Wrong(
    rank=2,
    element=77,
    number=41,
    values="whole numbers",
    expected=0x3F800000,
    found=0x3F800008,
    again=3,
    asked=100,
)
MUCH = Tally(rounds=310_000, compared_bytes=41_000_000_000_000, seconds=600.0)


def test_no_difference_is_said_with_how_rare_one_can_be() -> None:
    verdict = judge_soak(SPEC, CASE, replace(MUCH, left_out=("special words",)))
    assert (verdict.outcome, verdict.failed) == (Outcome.PASS, False)
    assert verdict.text == (
        "3.1e+05 rounds, 41 TB compared, no difference: fewer than 1 in 1e+05 rounds with 95 % "
        "confidence"
    )
    assert verdict.notes == ("not passed unchanged here, and left out: special words",)


def test_a_wrong_word_fails_with_rank_host_element_bits_and_how_often() -> None:
    tally = replace(MUCH, wrong=WRONG, launch=LAUNCH, process=1)
    verdict = judge_soak(SPEC, CASE, tally, ["a", "b"])
    assert (verdict.outcome, verdict.failed) == (Outcome.FAILED, True)
    assert verdict.failure is not None
    assert verdict.failure.kind is FailureKind.WRONG_RESULT
    assert verdict.text == (
        "wrong result: rank 2 (b), element 77, whole numbers, round 41: 0x3f800008, expected "
        "0x3f800000 (bit 3); with the same input wrong again in 3 of 100 rounds; "
        "with the ranks on other devices it did not come again"
    )
    many = replace(tally, wrong=replace(WRONG, elements=12, last=99, found=0))
    text = judge_soak(SPEC, CASE, replace(many, follows="device")).text
    assert text.endswith("it stays with the device")
    assert "element 77, the first of 12 up to 99, " in text
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


def test_processes_of_a_group_take_the_same_rounds_and_each_compares_its_own() -> None:
    answer = Soaked(launch=LAUNCH, rounds=10, compared_bytes=100, seconds=2.0)
    tally = Tally().plus(answer, 0).plus(replace(answer, wrong=WRONG), 1)
    assert (tally.rounds, tally.compared_bytes, tally.seconds) == (10, 200, 2.0)
    assert (tally.wrong, tally.process, tally.is_over) == (WRONG, 1, True)
    later = MUCH.plus(replace(answer, wrong=WRONG))
    assert later.wrong is not None
    # Of all rounds, not of the last launch's.
    assert later.wrong.number == MUCH.rounds + WRONG.number


def test_a_session_is_fine_only_if_every_case_had_a_round() -> None:
    good = judge_soak(SPEC, CASE, MUCH)
    assert judge_soak_session([good], {CASE: MUCH}).outcome is SessionOutcome.FINE
    none = judge_soak_session([good], {CASE: MUCH, build.case(payload_bytes=1): Tally()})
    assert none.outcome is SessionOutcome.NO_VERDICT
    bad = replace(MUCH, wrong=WRONG)
    failed = judge_soak_session([judge_soak(SPEC, CASE, bad)], {CASE: bad})
    assert failed.outcome is SessionOutcome.FAILED
    assert failed.text == "1 of 1 case failed; 1 case, 3.1e+05 rounds, 41 TB compared"
    assert judge_soak_session([], {}).outcome is SessionOutcome.NO_VERDICT


def test_a_session_in_which_no_case_was_compared_is_not_fine() -> None:
    wider = Tally().plus(build.failure(FailureKind.OTHER_DTYPE))
    skipped = judge_soak(SPEC, CASE, wider)
    session = judge_soak_session([skipped], {CASE: wider})
    assert (session.outcome, session.failed) == (SessionOutcome.NO_VERDICT, True)
    assert session.text == "no result was compared: 1 case skipped"
    # Beside a case that was compared it says nothing.
    other = build.case(payload_bytes=1)
    both = judge_soak_session([skipped, skipped], {CASE: wider, other: MUCH})
    assert both.outcome is SessionOutcome.FINE


@pytest.mark.parametrize(
    ("rounds", "text"), [(1, "1 in 1.1"), (59, "1 in 20"), (10**6, "1 in 3.3e+05")]
)
def test_the_bound_is_that_of_clopper_and_pearson(rounds: int, text: str) -> None:
    assert f"fewer than {text} rounds" in rare_text(rounds)


def test_amounts_are_in_powers_of_ten() -> None:
    assert amount_text(Tally(rounds=1, compared_bytes=12)) == "1 round, 12 bytes compared"
    assert amount_text(Tally(rounds=1204, compared_bytes=5_100_000)) == (
        "1,204 rounds, 5.1 MB compared"
    )

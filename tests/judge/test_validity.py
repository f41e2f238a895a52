"""Launches that gave no time: which of them fail a case, what is said, and what may be stored."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.judge.case import may_become_baseline
from busbw.judge.validity import broken, memory_text, only_at_the_moment
from busbw.model.launch import Failure, Measurement
from busbw.model.stored import Baseline
from busbw.model.words import FailureKind, FoundBy, Outcome
from tests import build

from .rules import OOM, STEADY, judged

HARD = [kind for kind in FailureKind if kind is not FailureKind.OUT_OF_MEMORY]


def _verdict(measurement: Measurement, baseline: Baseline | None, **given: Any) -> Any:
    return judged(measurement, baseline, **given).verdict


def _all_out_of_memory(**changes: Any) -> Measurement:
    return build.measurement(failures=(build.out_of_memory(**changes),) * 3)


def test_launches_that_all_gave_a_time_are_not_broken() -> None:
    assert broken(build.spec(), build.measurement(1e-3, 2e-3)) is None
    assert broken(build.spec(), _all_out_of_memory()) is None


def test_whose_launch_broke_is_said_where_there_are_two_sides() -> None:
    measurement = build.measurement(1e-3, failures=(build.failure(),))
    found = broken(build.spec(), measurement, "the reference: ")
    assert found is not None
    assert found.text == "the reference: crashed in 1 of 2 launches: it broke"
    nothing = broken(build.spec(), build.measurement(), "the reference: ")
    assert nothing is not None
    assert nothing.text == "the reference: it was not measured"


def test_memory_is_only_lacking_at_the_moment_if_that_was_predicted_and_it_would_fit() -> None:
    assert only_at_the_moment(_momentary())
    assert not only_at_the_moment(_momentary(capacity_bytes=9))
    assert not only_at_the_moment(_momentary(capacity_bytes=None))
    assert not only_at_the_moment(build.out_of_memory(found=FoundBy.RAISED))


def test_memory_in_words_has_what_was_needed_and_what_there_was() -> None:
    text = memory_text(_momentary(needed_bytes=2048, available_bytes=1024))
    assert text == "needs 2.0 KiB, 1.0 KiB available (predicted before touching memory)"


def test_where_nothing_is_left_what_the_process_itself_takes_is_said() -> None:
    left = _momentary(available_bytes=1024, process_bytes=4096)
    assert "by itself" not in memory_text(left)
    nothing = _momentary(needed_bytes=2048, available_bytes=0, process_bytes=4096)
    assert memory_text(nothing) == (
        "needs 2.0 KiB, 0 bytes available, as the worker's process takes 4.0 KiB by itself "
        "(predicted before touching memory)"
    )


def test_a_case_that_was_never_measured_has_failed() -> None:
    verdict = _verdict(build.measurement(), STEADY)
    assert (verdict.outcome, verdict.failed) == (Outcome.FAILED, True)
    assert verdict.text == "it was not measured"


@pytest.mark.parametrize("kind", HARD)
def test_a_single_dead_or_wrong_launch_fails_the_case_and_no_number_is_shown(
    kind: FailureKind,
) -> None:
    measurement = build.measurement(1e-3, 1e-3, failures=(build.failure(kind),))
    verdict = _verdict(measurement, STEADY, accept_all=True)
    assert (verdict.outcome, verdict.failed) == (Outcome.FAILED, True)
    assert "in 1 of 3 launches: it broke" in verdict.text
    assert measurement.failures[0] is verdict.failure
    assert verdict.now is None


def test_a_dead_launch_counts_more_than_one_out_of_memory() -> None:
    both = build.measurement(failures=(build.out_of_memory(), build.failure(FailureKind.TIMEOUT)))
    assert _verdict(both, OOM).text.startswith("timeout in 1 of 2 launches")


def test_out_of_memory_in_some_launches_is_a_failure() -> None:
    measurement = build.measurement(1e-3, 1e-3, failures=(build.out_of_memory(),))
    verdict = _verdict(measurement, STEADY, accept_all=True)
    assert (verdict.outcome, verdict.failed) == (Outcome.FAILED, True)
    assert verdict.text == "out of memory in 1 of 3 launches: it broke"


def _momentary(**changes: Any) -> Failure:
    bytes_of = {"needed_bytes": 10, "available_bytes": 5, "capacity_bytes": 20, **changes}
    return build.out_of_memory(found=FoundBy.PREDICTED, **bytes_of)


def test_memory_that_others_hold_at_the_moment_is_incomparable_and_no_regression() -> None:
    verdict = _verdict(build.measurement(failures=(_momentary(),) * 3), STEADY)
    assert (verdict.outcome, verdict.failed) == (Outcome.INCOMPARABLE, False)
    assert "needs 10 bytes, 5 bytes available (predicted" in verdict.text
    assert "with the machine's memory free it would fit" in verdict.text


def test_memory_that_the_machine_never_has_is_a_failure_where_there_was_a_time() -> None:
    verdict = _verdict(build.measurement(failures=(_momentary(capacity_bytes=9),)), STEADY)
    assert (verdict.outcome, verdict.failed) == (Outcome.OUT_OF_MEMORY, True)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (FoundBy.PREDICTED, "predicted before touching memory"),
        (FoundBy.RAISED, "raised by the framework"),
        (FoundBy.KILLED, "the kernel killed the worker"),
        (None, "raised by the framework"),
    ],
)
def test_out_of_memory_says_how_it_was_found(found: FoundBy | None, words: str) -> None:
    assert f"it broke ({words})" in _verdict(_all_out_of_memory(found=found), None).text


@pytest.mark.parametrize(
    ("measurement", "baseline", "may"),
    [
        (build.measurement(1e-3), None, True),
        (build.measurement(9e-3), STEADY, True),
        (build.measurement(1e-3), build.baseline(1e-3, protocol="host/other"), True),
        (_all_out_of_memory(), None, True),
        (build.measurement(failures=(_momentary(),)), STEADY, False),
        (build.measurement(failures=(_momentary(),)), None, False),
        (build.measurement(1e-3, failures=(build.out_of_memory(),)), None, False),
        (build.measurement(failures=(build.failure(),)), None, False),
    ],
)
def test_what_was_measured_may_be_stored_and_no_failure_but_memory_lacking_for_good(
    measurement: Measurement, baseline: Baseline | None, may: bool
) -> None:
    assert may == may_become_baseline(_verdict(measurement, baseline))
    assert not may_become_baseline(build.verdict(Outcome.SKIPPED))

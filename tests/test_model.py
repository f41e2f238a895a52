"""The words: sizes and durations as people read them, ids, and verdicts that word themselves."""

from __future__ import annotations

import dataclasses

import pytest

from busbw import model
from busbw.model import Outcome, SessionOutcome, SessionVerdict

from . import build


@pytest.mark.parametrize(
    ("payload_bytes", "text"),
    [
        (0, "0"),
        (4, "4"),
        (1000, "1000"),
        (1024, "1K"),
        (1536, "1536"),
        (64 * 1024, "64K"),
        (1024**2, "1M"),
        (1024**2 + 1024, "1025K"),
        (2**30, "1024M"),
    ],
)
def test_a_payload_is_written_in_the_largest_unit_that_divides_it(
    payload_bytes: int, text: str
) -> None:
    assert text == model.payload_text(payload_bytes)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (int(11.5 * 2**30), "11.5 GiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_bytes_are_written_in_the_unit_that_reads_best(count: int, text: str) -> None:
    assert text == model.bytes_text(count)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 us"),
        (1.5e-6, "1.5 us"),
        (812.4e-6, "812.4 us"),
        (1e-3, "1 ms"),
        (0.0123456, "12.35 ms"),
        (2.5, "2.5 s"),
    ],
)
def test_a_duration_has_four_digits_and_the_unit_that_reads_best(seconds: float, text: str) -> None:
    assert text == model.seconds_text(seconds)


def test_the_id_of_a_spec_names_framework_strategy_dtype_and_payload() -> None:
    assert build.spec().id == "jax-default-float32-4K"


def test_the_name_of_a_case_is_one_word() -> None:
    assert build.case().name == "jax.all_reduce.psum.float32.4K"


def test_equal_cases_are_equal_values_and_another_protocol_is_another_case() -> None:
    assert build.case() == build.case()
    assert build.case() != build.case(protocol="host/chain2")


def test_no_value_can_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(build.case(), "ranks", 2)  # noqa: B010 - mypy refuses the plain assignment


def test_every_word_and_value_is_offered_by_the_package_itself() -> None:
    assert sorted(model.__all__, key=str.lower) == sorted(set(model.__all__), key=str.lower)
    assert all(hasattr(model, name) for name in model.__all__)


def test_a_headline_is_the_outcome_and_the_reason() -> None:
    assert build.verdict(Outcome.REGRESSED, text="too slow").headline() == "REGRESSED: too slow"


def test_a_verdict_without_a_failure_explains_itself_in_one_line() -> None:
    verdict = build.verdict(text="as before")
    assert verdict.headline() == verdict.explain()


def test_a_verdict_with_a_failure_explains_it_down_to_the_end_of_the_log() -> None:
    failure = build.failure(exit_code=139, log="first row\nlast row\n")
    verdict = build.verdict(Outcome.FAILED, text="crashed", failure=failure)
    assert verdict.explain().splitlines() == [
        "FAILED: crashed",
        "launch 2.0: CRASHED: it broke",
        "exit code 139",
        "end of the worker's log:",
        "    first row",
        "    last row",
    ]


def test_a_failure_without_exit_code_and_log_says_neither() -> None:
    text = build.verdict(Outcome.FAILED, failure=build.failure()).explain()
    assert "exit code" not in text
    assert "log" not in text


@pytest.mark.parametrize("outcome", SessionOutcome)
def test_a_session_fails_unless_it_is_fine(outcome: SessionOutcome) -> None:
    session = SessionVerdict(outcome=outcome, text="")
    assert (outcome is not SessionOutcome.FINE) == session.failed

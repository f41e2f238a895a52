"""The answer: failed cases in the order of severity, and the outcome of the session last."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome
from busbw.report.conclusion import conclusion_lines, failure_logs
from tests.helpers import build

KIB = 1024
PASS = SessionVerdict(outcomes=(SessionOutcome.PASS,), text="measured")
RED = {"red": True, "bold": True}


def _failed(size: int, outcome: Outcome = Outcome.REGRESSED, **changes: Any) -> Verdict:
    spec = build.spec(payload_bytes=size, **changes.pop("spec", {}))
    return build.verdict(outcome, failed=True, spec=spec, **changes)


def _slow(size: int, ratio: float, limit: float = 2.0, **spec: Any) -> Verdict:
    return _failed(size, ratio=ratio, limit=limit, spec=spec)


def _lines(*verdicts: Verdict) -> list[str]:
    """Return the lines of the answer about cases."""
    *lines, last = (line.text for line in conclusion_lines(verdicts, PASS))
    assert last == "PASS: measured"
    return lines


def test_the_last_lines_of_a_session_list_regressions_in_the_order_of_severity() -> None:
    verdicts = [_slow(KIB, 2.1), _slow(2 * KIB, 3.5), _slow(4 * KIB, 1.04, limit=1.02)]
    assert _lines(*verdicts) == [
        "3 REGRESSED: jax 2K 3.50 x (limit 2.00 x), 1K 2.10 x (limit 2.00 x), "
        "4K 1.040 x (limit 1.020 x)"
    ]


def test_the_last_lines_of_a_session_name_its_worst_regressions_and_count_the_others() -> None:
    (line,) = _lines(*(_slow(number * KIB, 9.0 - number) for number in range(1, 7)))
    assert line.endswith("4K 5.00 x (limit 2.00 x), and 2 cases more")


def test_the_last_lines_of_a_session_name_the_framework_only_if_there_are_several() -> None:
    other = build.verdict(spec=build.spec(framework="tensorflow", dtype="int32"))
    assert _lines(other, _slow(KIB, 3.0)) == ["1 REGRESSED: jax float32 1K 3.00 x (limit 2.00 x)"]


def test_the_last_lines_of_a_session_list_the_worst_outcome_first_and_each_reason_once() -> None:
    broken = [_failed(size * KIB, Outcome.FAILED, text="killed by SIGKILL") for size in (1, 2)]
    assert _lines(_slow(4 * KIB, 3.0), *broken) == [
        "2 FAILED: jax 1K, 2K: killed by SIGKILL",
        "1 REGRESSED: jax 4K 3.00 x (limit 2.00 x)",
    ]


def test_the_last_lines_of_a_session_name_the_first_and_the_last_payload_with_a_reason() -> None:
    verdicts = [_failed(2**size * KIB, Outcome.NO_BASELINE, text="none") for size in range(6)]
    assert _lines(*verdicts) == ["6 NO_BASELINE: jax 1K to 32K: none"]


def test_the_last_lines_of_a_session_do_not_name_noisy_or_improved_cases() -> None:
    assert _lines(build.verdict(Outcome.NOISY), build.verdict(Outcome.IMPROVED)) == []


def test_the_last_lines_of_a_session_count_the_cases_that_do_not_fit_into_eight_lines() -> None:
    verdicts = [_slow(KIB, 3.0, dtype=f"d{number}") for number in range(12)]
    assert _lines(*verdicts)[-1] == "and 4 cases more: see the tables"


@pytest.mark.parametrize(
    ("outcomes", "markup"),
    [
        ((SessionOutcome.PASS,), {"green": True}),
        ((SessionOutcome.FAILED,), {"red": True}),
        ((SessionOutcome.SLOWER, SessionOutcome.NO_VERDICT), {"red": True}),
    ],
)
def test_the_last_line_of_a_session_is_its_outcome_in_the_colour_of_the_outcome(
    outcomes: tuple[SessionOutcome, ...], markup: dict[str, bool]
) -> None:
    session = SessionVerdict(outcomes=outcomes, text="all sizes")
    first, last = conclusion_lines([_slow(KIB, 3.0)], session)
    assert first.markup == RED
    assert (last.text, last.markup) == (session.headline(), markup)


def test_the_end_of_a_worker_log_is_shown_once_for_cases_with_the_same_failure() -> None:
    failure = build.failure(FailureKind.CRASHED, message="it broke", log="one\ntwo", exit_code=3)
    verdicts = [_failed(size * KIB, Outcome.FAILED, failure=failure) for size in (1, 2, 4)]
    (log,) = failure_logs([build.verdict(), *verdicts])
    assert log.title == "jax-default-float32-1K and 2 cases more"
    assert log.lines[-4:] == ("exit code 3", "end of the worker's log:", "    one", "    two")


def test_no_shown_line_of_a_worker_log_is_a_workflow_command_of_github() -> None:
    text = "::add-mask::a\n  ::error::b\nc ::d\ne ##[warning]f"
    failure = build.failure(FailureKind.CRASHED, message="m\n::stop-commands::x", log=text)
    (log,) = failure_logs([_failed(KIB, Outcome.FAILED, failure=failure)])
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in log.lines)


def test_cases_without_a_failure_of_a_worker_have_no_log() -> None:
    assert failure_logs([build.verdict(), _slow(KIB, 3.0)]) == []

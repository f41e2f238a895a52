"""The answer: failed cases in the order of severity, and the outcome of the session last."""

from __future__ import annotations

from typing import Any

import pytest

from busbw import extensions
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import KIB, FailureKind, Outcome, SessionOutcome
from busbw.report import figures
from busbw.report.conclusion import conclusion_lines, failure_logs, verdict_tables
from busbw.report.table import render
from tests.helpers import build

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


BROKEN = [_failed(size * KIB, Outcome.FAILED, text="killed by SIGKILL") for size in (1, 2)]
LOST = [_failed(2**size * KIB, Outcome.NO_BASELINE, text="none") for size in range(6)]
OTHER = build.verdict(spec=build.spec(framework="tensorflow", dtype="int32"))
SIX = "4K 5.00 x (limit 2.00 x), and 2 cases more"


@pytest.mark.parametrize(
    ("verdicts", "lines"),
    [
        # The largest loss, in limits, first.
        (
            [_slow(KIB, 2.1), _slow(2 * KIB, 3.5), _slow(4 * KIB, 1.04, limit=1.02)],
            [
                "3 REGRESSED: jax 2K 3.50 x (limit 2.00 x), 1K 2.10 x (limit 2.00 x), "
                "4K 1.040 x (limit 1.020 x)"
            ],
        ),
        # The label of a case does not depend on the other cases.
        ([OTHER, _slow(KIB, 3.0)], ["1 REGRESSED: jax 1K 3.00 x (limit 2.00 x)"]),
        # The worst outcome first, and each reason once.
        (
            [_slow(4 * KIB, 3.0), *BROKEN],
            [
                "2 FAILED: jax 1K, 2K: killed by SIGKILL",
                "1 REGRESSED: jax 4K 3.00 x (limit 2.00 x)",
            ],
        ),
        (LOST, ["6 NO_BASELINE: jax 1K to 32K: none"]),
        ([build.verdict(Outcome.NOISY), build.verdict(Outcome.IMPROVED)], []),
    ],
    ids=["severity", "frameworks", "outcomes", "payloads", "no failure"],
)
def test_the_last_lines_of_a_session_list_failed_cases_in_the_order_of_severity(
    verdicts: list[Verdict], lines: list[str]
) -> None:
    assert _lines(*verdicts) == lines


@pytest.mark.parametrize(
    ("verdicts", "end"),
    [
        ([_slow(number * KIB, 9.0 - number) for number in range(1, 7)], SIX),
        (
            [_slow(KIB, 3.0, dtype=f"d{number}") for number in range(12)],
            "and 4 cases more: see the tables",
        ),
    ],
    ids=["of one line", "of eight lines"],
)
def test_the_last_lines_of_a_session_count_the_cases_that_they_do_not_name(
    verdicts: list[Verdict], end: str
) -> None:
    assert _lines(*verdicts)[-1].endswith(end)


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
    ((heading, lines),) = failure_logs([build.verdict(), *verdicts])
    assert heading == "jax-default-float32-1K and 2 cases more"
    assert lines[-4:] == ("exit code 3", "end of the worker's log:", "    one", "    two")


def test_no_shown_line_of_a_worker_log_is_a_workflow_command_of_github() -> None:
    text = "::add-mask::a\n  ::error::b\nc ::d\ne ##[warning]f"
    failure = build.failure(FailureKind.CRASHED, message="m\n::stop-commands::x", log=text)
    ((_, lines),) = failure_logs([_failed(KIB, Outcome.FAILED, failure=failure)])
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines)


@pytest.mark.parametrize("extras", [({"load": 1.5}, {}), ({}, {"load": 1.5})])
def test_the_column_of_an_extension_is_shown_if_only_some_cases_have_a_value(
    extras: tuple[dict[str, float], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = figures.Figure(
        "load", "load", is_fitted_to_cells=True, compute=lambda verdict: verdict.extra.get("load")
    )
    tables = {"COLUMNS": {"load": (load,)}, "FIGURES": {}}
    monkeypatch.setattr(extensions, "load_table", tables.__getitem__)
    lines = render("text", *verdict_tables([build.verdict(extra=extra) for extra in extras]))
    assert "1.5" in "\n".join(lines)

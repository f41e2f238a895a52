"""Verdicts as pytest outcomes: own letters and words; only what fails is counted as a failure.

A case that was measured but not judged (noisy, no baseline, not comparable) is reported as skipped:
it is no failure, and it is not a pass either.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from busbw.model import CaseVerdict, Outcome, SessionVerdict

from .selecting import VERDICT

_NOT_JUDGED = (
    Outcome.NOISY,
    Outcome.NO_BASELINE,
    Outcome.INCOMPARABLE,
    Outcome.SKIPPED,
    Outcome.OUT_OF_MEMORY,
)

# The report's attribute that tells the next hook what the verdict was.
OUTCOME = "busbw_outcome"

# outcome -> letter, and the word that pytest's last line counts it under
_LETTERS = {
    Outcome.REGRESSED: ("R", "regressed"),
    Outcome.IMPROVED: ("I", "improved"),
    Outcome.NOISY: ("~", "noisy"),
    Outcome.NO_BASELINE: ("n", "without baseline"),
    Outcome.OUT_OF_MEMORY: ("M", "out of memory"),
    Outcome.INCOMPARABLE: ("i", "incomparable"),
    Outcome.SKIPPED: ("s", "skipped"),
    Outcome.CHANGED: ("C", "changed"),
    Outcome.COMPILE_ERROR: ("E", "compile errors"),
}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The report of a perf item says what its verdict says, not where an assert stands.

    Nor whether one stands there: without assertions (``python -O``) a failed case still fails, and
    so does one whose test is marked xfail or skips itself.
    """
    report = yield
    found = item.stash.get(VERDICT, None)
    if call.when != "call" or found is None:
        return report
    vars(report)[OUTCOME] = found.outcome.value
    if isinstance(found, SessionVerdict):
        return report
    if found.failed:
        report.outcome = "failed"
        report.longrepr = found.explain()
        vars(report).pop("wasxfail", None)
    elif report.passed and not_judged(found):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, found.headline())
    return report


def not_judged(verdict: CaseVerdict) -> bool:
    """Whether a verdict that does not fail is no pass either."""
    return not verdict.failed and not verdict.expected and verdict.outcome in _NOT_JUDGED


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    """Category, letter and word of a perf item's call."""
    name = getattr(report, OUTCOME, "")
    if report.when != "call" or name not in Outcome.__members__:
        return None
    outcome = Outcome(name)
    if outcome not in _LETTERS:
        return None
    letter, category = _LETTERS[outcome]
    if report.failed:
        return "failed", letter, (name, {"red": True})
    return category, letter, (name, {"green" if report.passed else "yellow": True})

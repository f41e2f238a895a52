"""Findings at a case: a failure overrides other findings, in any order."""

from __future__ import annotations

import itertools

import pytest

from busbw.judge.decision import Finding, apply_findings
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from tests.helpers import build

NOTE, DOUBT = Finding(notes=("a link is bad",)), Finding(notes=("heat",), doubt="throttled")
FAILURE = Finding(failure="another order")


def _merge(outcome: Outcome, *findings: Finding) -> Verdict:
    failed = outcome in (Outcome.REGRESSED, Outcome.FAILED)
    verdict = Verdict(
        spec=build.spec(), outcome=outcome, failed=failed, text="so", notes=("another order",)
    )
    merged = [apply_findings(verdict, order) for order in itertools.permutations(findings)]
    assert len({(v.outcome, v.failed, v.text, frozenset(v.notes)) for v in merged}) == 1
    return merged[0]


@pytest.mark.parametrize(
    ("outcome", "findings", "expected"),
    [
        (Outcome.PASS, (NOTE, DOUBT), (Outcome.PASS, False)),
        (Outcome.REGRESSED, (NOTE,), (Outcome.REGRESSED, True)),
        (Outcome.REGRESSED, (NOTE, DOUBT), (Outcome.NOISY, False)),
        (Outcome.PASS, (NOTE, DOUBT, FAILURE), (Outcome.CHANGED, True)),
        (Outcome.REGRESSED, (FAILURE, DOUBT), (Outcome.CHANGED, True)),
        (Outcome.REGRESSED, (FAILURE,), (Outcome.REGRESSED, True)),
        (Outcome.FAILED, (FAILURE, DOUBT), (Outcome.FAILED, True)),
    ],
)
def test_a_finding_with_a_failure_overrides_a_finding_that_makes_a_regression_noisy(
    outcome: Outcome, findings: tuple[Finding, ...], expected: tuple[Outcome, bool]
) -> None:
    verdict = _merge(outcome, *findings)
    assert (verdict.outcome, verdict.failed) == expected
    # A text is shown once, as the reason or as a note.
    assert (FAILURE.failure in verdict.notes) is (verdict.outcome is not Outcome.CHANGED)

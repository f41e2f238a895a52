"""The criterion of a bisection, and the status of a release by it."""

from __future__ import annotations

import math
import random

import pytest

from busbw.extensions.bisect.sessions import (
    ERROR_RISK,
    Criterion,
    SessionResult,
    SessionRunner,
    Status,
    find_criterion,
)
from busbw.model.case import CaseSpec
from busbw.model.launch import Failure
from busbw.model.verdict import Verdict
from busbw.model.words import FailureKind, Outcome

SMALL, LARGE = 1024, 2**20


def _verdict(outcome: Outcome, size: int = SMALL, **fields: object) -> Verdict:
    spec = CaseSpec(framework="fake", payload_bytes=size)
    return Verdict(spec=spec, outcome=outcome, failed=False, text="so", **fields)  # type: ignore[arg-type]


def _result(*verdicts: Verdict) -> SessionResult:
    return SessionResult(verdicts={verdict.spec.id: verdict for verdict in verdicts})


def _failed(kind: FailureKind, size: int = SMALL) -> Verdict:
    return _verdict(Outcome.FAILED, size, failure=Failure(kind=kind, message="so"))


PASSES = _result(_verdict(Outcome.PASS), _verdict(Outcome.PASS, LARGE))
WRONG = FailureKind.WRONG_RESULT


def test_a_failure_that_the_good_release_also_has_does_not_make_a_release_bad() -> None:
    assert find_criterion(PASSES, PASSES) is None
    failure = _result(_failed(WRONG))
    assert find_criterion(failure, failure) is None


def test_the_criterion_of_a_bisection_is_a_failure_rather_than_a_slower_time() -> None:
    bad = _result(_failed(WRONG), _verdict(Outcome.REGRESSED, LARGE, ratio=1.5))
    criterion = find_criterion(PASSES, bad)
    assert criterion is not None
    assert criterion.problem == "wrong result"
    assert len(criterion.cases) == 1


def test_the_criterion_of_a_bisection_is_the_case_with_the_largest_ratio() -> None:
    slower = [_verdict(Outcome.REGRESSED, size, ratio=r) for size, r in ((SMALL, 1.2), (LARGE, 2))]
    criterion = find_criterion(PASSES, _result(*slower))
    assert criterion is not None
    assert (criterion.problem, criterion.ratio, criterion.cases) == (
        "slow",
        2,
        (slower[1].spec.id,),
    )


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (_failed(WRONG), Status.BAD),
        (_failed(FailureKind.CRASHED), Status.UNTESTABLE),
        (_verdict(Outcome.OUT_OF_MEMORY), Status.UNTESTABLE),
        (_verdict(Outcome.PASS), Status.GOOD),
        (_verdict(Outcome.NOISY), Status.GOOD),
        (_verdict(Outcome.REGRESSED), Status.GOOD),
        (_verdict(Outcome.PASS, LARGE), Status.UNTESTABLE),
        (_verdict(Outcome.SKIPPED), Status.UNTESTABLE),
    ],
)
def test_a_release_that_fails_in_another_way_than_the_bad_release_is_untestable(
    verdict: Verdict, status: Status
) -> None:
    criterion = Criterion(cases=(_verdict(Outcome.PASS).spec.id,), problem="wrong result")
    assert criterion.judge_session(_result(verdict))[0] is status


@pytest.mark.parametrize(("loss", "noise"), [(0.3, 0.04), (0.1, 0.04), (0.05, 0.007)])
def test_launches_decide_whether_a_release_shows_less_or_more_than_half_of_the_loss(
    loss: float, noise: float
) -> None:
    criterion = Criterion(cases=("x",), problem="slow", ratio=1 + loss)
    for seed in range(200):
        chance = random.Random(seed)
        for status, level in ((Status.GOOD, 0.0), (Status.BAD, loss)):
            log_ratios: list[float] = []
            while criterion.status_of_times(log_ratios) is None:
                log_ratios += [chance.gauss(level, noise) for _ in range(6)]
            assert criterion.status_of_times(log_ratios) is status


@pytest.mark.parametrize(
    ("log_ratios", "status"),
    [
        # The limit is 0.15. The means are clearly on one side of it, the true values may not be.
        ([0.0, 0.2, 0.4], None),
        ([-0.1, 0.1, 0.3], None),
        ([0.199, 0.2, 0.201], Status.BAD),
        ([0.099, 0.1, 0.101], Status.GOOD),
    ],
)
def test_a_release_is_undecided_while_the_interval_of_its_time_contains_the_limit(
    log_ratios: list[float], status: Status | None
) -> None:
    criterion = Criterion(cases=("x",), problem="slow", ratio=math.exp(0.3))
    assert criterion.status_of_times(log_ratios) is status


@pytest.mark.parametrize("level", [0.05, 0.25])
def test_at_most_one_of_800_releases_with_noisy_times_gets_the_wrong_status(level: float) -> None:
    criterion = Criterion(cases=("x",), problem="slow", ratio=math.exp(0.3))
    chance, false_status = random.Random(1), Status.BAD if level < 0.15 else Status.GOOD
    statuses = [
        criterion.status_of_times([chance.gauss(level, 0.2) for _ in range(4)]) for _ in range(4000)
    ]
    assert statuses.count(false_status) <= 4000 * ERROR_RISK


def test_a_failure_that_does_not_occur_again_has_a_rate_above_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SessionRunner, "run_alone", lambda runner, python: PASSES)
    criterion = Criterion(cases=("x",), problem="failed")
    runner = object.__new__(SessionRunner)
    measured = SessionRunner.with_measured_failure_rate(runner, criterion, "python")
    assert 100 < measured.needed_launch_count < 10_000


def test_a_bisection_with_a_rarer_failure_needs_more_launches_before_a_release_is_good() -> None:
    counts = [
        Criterion(cases=("x",), problem="failed", rate=rate).needed_launch_count
        for rate in (1.0, 0.5, 0.2, 0.1)
    ]
    assert counts[0] == 1
    assert counts == sorted(counts)
    # Of one in five, half of which is missed in each launch that is thought to be one in ten.
    assert 0.8 ** counts[2] < 1e-5

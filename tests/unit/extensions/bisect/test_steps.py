"""What a step shows: by which criterion, and by how many launches."""

from __future__ import annotations

import random

import pytest

from busbw.extensions.bisect.search import Shown
from busbw.extensions.bisect.steps import Answer, Criterion, criterion_of
from busbw.model.case import Spec
from busbw.model.launch import Failure
from busbw.model.verdict import Verdict
from busbw.model.words import FailureKind, Outcome
from busbw.model.workload import Workload

SMALL, LARGE = 1024, 2**20


def _verdict(outcome: Outcome, size: int = SMALL, **own: object) -> Verdict:
    spec = Spec(framework="fake", payload_bytes=size, workload=Workload())
    return Verdict(spec=spec, outcome=outcome, failed=False, text="so", **own)  # type: ignore[arg-type]


def _answer(*verdicts: Verdict) -> Answer:
    return Answer(verdicts={one.spec.id: one for one in verdicts})


def _failed(kind: FailureKind, size: int = SMALL) -> Verdict:
    return _verdict(Outcome.FAILED, size, failure=Failure(kind=kind, message="so"))


PASSES = _answer(_verdict(Outcome.PASS), _verdict(Outcome.PASS, LARGE))
WRONG = FailureKind.WRONG_RESULT


def test_what_the_good_one_shows_too_is_no_criterion() -> None:
    assert criterion_of(PASSES, PASSES) is None
    wrong = _answer(_failed(WRONG))
    assert criterion_of(wrong, wrong) is None


def test_a_failure_comes_before_a_slower_time_and_is_known_by_its_kind() -> None:
    bad = _answer(_failed(WRONG), _verdict(Outcome.REGRESSED, LARGE, ratio=1.5))
    found = criterion_of(PASSES, bad)
    assert found is not None
    assert (found.what, found.outcome, len(found.cases)) == ("wrong result", Outcome.FAILED, 1)


def test_of_slower_cases_the_slowest_is_looked_for() -> None:
    slower = [_verdict(Outcome.REGRESSED, size, ratio=r) for size, r in ((SMALL, 1.2), (LARGE, 2))]
    found = criterion_of(PASSES, _answer(*slower))
    assert found is not None
    assert (found.what, found.ratio, found.cases) == ("slow", 2, (slower[1].spec.id,))


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [
        (_failed(WRONG), Shown.BAD),
        (_failed(FailureKind.CRASHED), Shown.UNTESTABLE),
        (_verdict(Outcome.OUT_OF_MEMORY), Shown.UNTESTABLE),
        (_verdict(Outcome.PASS), Shown.GOOD),
        (_verdict(Outcome.NOISY), Shown.GOOD),
        (_verdict(Outcome.REGRESSED), Shown.GOOD),
        (_verdict(Outcome.PASS, LARGE), Shown.UNTESTABLE),
        (_verdict(Outcome.SKIPPED), Shown.UNTESTABLE),
    ],
)
def test_another_failure_says_nothing_and_a_time_says_it_is_not_there(
    verdict: Verdict, shown: Shown
) -> None:
    case = _verdict(Outcome.PASS).spec.id
    wanted = Criterion(cases=(case,), outcome=Outcome.FAILED, kind=WRONG.value)
    assert wanted.shown(_answer(verdict)) is shown


def test_what_is_noisy_is_not_decided() -> None:
    case = _verdict(Outcome.PASS).spec.id
    wanted = Criterion(cases=(case,), outcome=Outcome.REGRESSED)
    assert wanted.shown(_answer(_verdict(Outcome.NOISY))) is None


@pytest.mark.parametrize(("loss", "noise"), [(0.3, 0.04), (0.1, 0.04), (0.05, 0.007)])
def test_launches_show_on_which_side_of_the_half_a_release_is(loss: float, noise: float) -> None:
    wanted = Criterion(cases=("x",), outcome=Outcome.REGRESSED, ratio=1 + loss)
    for seed in range(200):
        chance = random.Random(seed)
        for shown, level in ((Shown.GOOD, 0.0), (Shown.BAD, loss)):
            shifts: list[float] = []
            while wanted.shown_by(shifts) is None:
                shifts += [chance.gauss(level, noise) for _ in range(6)]
            assert wanted.shown_by(shifts) is shown


def test_the_rarer_it_is_the_more_launches_say_that_it_is_absent() -> None:
    counts = [
        Criterion(cases=("x",), outcome=Outcome.FAILED, rate=rate).launches
        for rate in (1.0, 0.5, 0.2, 0.1)
    ]
    assert counts[0] == 1
    assert counts == sorted(counts)
    # Of one in five, half of which is missed in each launch that is thought to be one in ten.
    assert 0.8 ** counts[2] < 1e-5

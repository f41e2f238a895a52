"""The verdicts of a soak."""

from __future__ import annotations

import pytest

from busbw.extensions.soak.judge import compared_text, judge_soaked_case
from busbw.extensions.soak.worker import Tally
from busbw.model.launch import Failure, LaunchId
from busbw.model.words import FailureKind
from tests.helpers import build

CASE, SPEC = build.case(), build.spec()
MUCH = Tally(iterations=1_130_000, compared_bytes=2_600_000_000_000, soaked_s=600.0)


def test_the_verdict_of_a_soak_has_the_wrong_element_and_the_amount_before_it() -> None:
    launch = LaunchId(round_number=3, framework="jax")
    failure = Failure(kind=FailureKind.WRONG_RESULT, message="iteration 41: rank 2", launch=launch)
    verdict = judge_soaked_case(SPEC, CASE, MUCH, failure)
    assert (verdict.failed, verdict.failure) == (True, failure)
    assert verdict.text == "wrong result: iteration 41: rank 2"
    assert verdict.extra == {"soak": MUCH}


def test_the_tallies_of_turns_add_up() -> None:
    turn = Tally(iterations=10, compared_bytes=100, soaked_s=2.0)
    assert sum([turn, turn], Tally()) == Tally(iterations=20, compared_bytes=200, soaked_s=4.0)


@pytest.mark.parametrize(
    ("iterations", "text"), [(1, "1 in 1.1"), (59, "1 in 20"), (10**6, "1 in 330,000")]
)
def test_the_upper_bound_of_the_error_rate_of_a_soak_is_the_clopper_pearson_bound(
    iterations: int, text: str
) -> None:
    tally = Tally(iterations=iterations)
    assert f"error rate below {text}, " in compared_text(tally)

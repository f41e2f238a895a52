"""The verdicts of a soak."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.extensions.soak.judge import (
    Tally,
    compared_text,
    judge_soaked_case,
)
from busbw.extensions.soak.worker import SoakRun, WrongElement
from busbw.model.launch import LaunchId
from tests.helpers import build

CASE, SPEC = build.case(), build.spec()
LAUNCH = LaunchId(round_number=3, framework="jax")
WRONG = WrongElement(
    rank=2,
    element=77,
    iteration=41,
    expected=0x3F800000,
    actual=0x3F800008,
)
MUCH = Tally(iterations=1_130_000, compared_bytes=2_600_000_000_000, soaked_s=600.0)


def test_the_verdict_of_a_soak_names_each_wrong_bit_and_the_host_of_the_rank() -> None:
    tally = replace(MUCH, mismatch=replace(WRONG, actual=0), launch=LAUNCH, process=1)
    text = judge_soaked_case(SPEC, CASE, tally, ["a", "b"]).text
    assert text.startswith("wrong result: rank 2 (b), element 77, iteration 41: 0x0, expected ")
    assert "(bits 23, 24, 25, 26, 27, 28, 29)" in text


def test_a_soak_counts_the_iterations_of_a_group_once_and_adds_up_the_compared_bytes() -> None:
    reply = SoakRun(launch=LAUNCH, iterations=10, compared_bytes=100, seconds=2.0)
    tally = Tally().with_reply(reply, 0).with_reply(replace(reply, mismatch=WRONG), 1)
    assert (tally.iterations, tally.compared_bytes, tally.soaked_s) == (10, 200, 2.0)
    assert (tally.mismatch, tally.process, tally.is_over) == (WRONG, 1, True)
    later = MUCH.with_reply(replace(reply, mismatch=WRONG))
    assert later.mismatch is not None
    # The number is that in all launches.
    assert later.mismatch.iteration == MUCH.iterations + WRONG.iteration


@pytest.mark.parametrize(
    ("iterations", "text"), [(1, "1 in 1.1"), (59, "1 in 20"), (10**6, "1 in 330,000")]
)
def test_the_upper_bound_of_the_error_rate_of_a_soak_is_the_clopper_pearson_bound(
    iterations: int, text: str
) -> None:
    tally = Tally(iterations=iterations)
    assert f"error rate below {text}, " in compared_text([tally])

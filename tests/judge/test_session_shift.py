"""The machine as a whole: slower if most cases moved with an anchor that has no collective."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from busbw.judge import Moved, differences, environment_shift, moved

from .rules import POLICY


def _moved(case: float, anchor: float) -> Moved:
    return Moved(log_ratio=math.log(case), anchor_log_ratio=math.log(anchor))


def test_a_case_and_its_anchor_moved_by_what_their_medians_say() -> None:
    found = moved([2e-3, 4e-3, 9e-3], [1e-4, 3e-4, 3e-4], [1e-3, 2e-3, 2e-3], [1e-4])
    assert found.log_ratio == pytest.approx(math.log(2))
    assert found.anchor_log_ratio == pytest.approx(math.log(3))


@pytest.mark.parametrize(("factor", "word"), [(1.5, "slower"), (0.6, "faster")])
def test_where_the_anchor_and_most_cases_moved_the_machine_did(factor: float, word: str) -> None:
    text = environment_shift([_moved(factor, factor)] * 2 + [_moved(1.0, factor)], POLICY)
    assert text == (
        f"the machine is {word} than with the baselines: the anchor, which has no collective, "
        f"takes {factor:.2f} x the time, and with it moved 2 of 3 cases"
    )


def test_an_anchor_that_stands_still_accuses_the_cases() -> None:
    assert environment_shift([_moved(3.0, 1.0)] * 9, POLICY) == ""


def test_cases_that_stand_still_contradict_the_anchor() -> None:
    assert environment_shift([_moved(1.0, 3.0)] * 9, POLICY) == ""


def test_half_of_the_cases_is_no_majority() -> None:
    assert environment_shift([_moved(3.0, 3.0)] * 2 + [_moved(1.0, 3.0)] * 2, POLICY) == ""


def test_cases_that_moved_the_other_way_did_not_move_with_it() -> None:
    assert environment_shift([_moved(0.5, 2.0)] * 5, POLICY) == ""


@pytest.mark.parametrize("number", [0, 1, 2])
def test_fewer_than_three_cases_say_nothing_of_the_machine(number: int) -> None:
    assert environment_shift([_moved(3.0, 3.0)] * number, POLICY) == ""


def test_how_far_the_anchor_may_move_is_the_policy_s() -> None:
    cases = [_moved(1.3, 1.3)] * 3
    assert environment_shift(cases, POLICY)
    assert environment_shift(cases, replace(POLICY, anchor_shift=0.4)) == ""


def test_what_differs_is_named_with_both_and_what_was_unknown_before_is_not() -> None:
    before = {"jax": "0.10.1", "load": "0.10", "XLA_FLAGS": "--x"}
    now = {"jax": "0.10.2", "load": "0.10", "numpy": "2"}
    assert differences(before, now) == ["jax 0.10.1 -> 0.10.2", "XLA_FLAGS --x -> none"]
    assert differences(before, before) == []

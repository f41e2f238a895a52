"""What a reference stack, which never changes, says of the machine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from busbw.judge.levels import all_answers, machine_answer
from busbw.judge.policy import POLICIES
from busbw.model.stored import EarlierSession
from busbw.model.verdict import Answer
from busbw.model.words import Device as Class

from .nightly import FIRST, Device, cases

POLICY = POLICIES[Class.TPU]


def _answer(nights: list[EarlierSession] | None, today: EarlierSession) -> Answer:
    return machine_answer("jax", nights, today, POLICY)


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_as_fast_as_before_is_not_slower(seed: int) -> None:
    device = Device(seed)
    found = _answer(device.nights(6), device.night(6))
    assert found.is_slower is False
    assert found.text.startswith("the reference takes ")
    assert " x the time of its 6 earlier nights, limit 1.0" in found.text


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_that_slows_every_case_of_the_reference_is_slower(seed: int) -> None:
    device = Device(seed)
    found = _answer(device.nights(6), device.night(6, 1.06))
    assert found.is_slower
    assert found.text.startswith("the reference takes 1.0")


def test_a_machine_that_got_faster_is_told_and_not_slower() -> None:
    device = Device(1)
    found = _answer(device.nights(6), device.night(6, 0.8))
    assert found.is_slower is False
    assert found.text.startswith("the reference takes 0.")


def test_a_level_that_rose_over_the_nights_is_told_with_its_night() -> None:
    device = Device(2)
    slow = {device.cases[4]: 1.05}
    nights = [device.night(at, slow if at >= 10 else 1.0) for at in range(20)]
    found = _answer(nights[:-1], nights[-1])
    assert found.is_slower
    since = f"{FIRST + timedelta(days=10):%Y-%m-%d}"
    assert f"{device.cases[4].name} is " in found.text
    assert f"slower than at first since {since}" in found.text


def test_without_an_earlier_night_nothing_is_told() -> None:
    found = _answer([], Device(1).night(0))
    text = "unknown, this reference has no earlier night here (jax)"
    assert found == Answer(text=text, is_slower=None)


def test_without_a_history_nothing_is_told_and_why() -> None:
    found = _answer(None, Device(1).night(0))
    assert found == Answer(text="unknown without --history (jax)", is_slower=None)


def test_a_few_cases_share_nothing_that_could_be_told() -> None:
    device = Device(1, measured=cases(3))
    found = _answer(device.nights(6), device.night(6, 1.5))
    assert found.text.startswith("unknown from fewer than 6 cases")
    assert found.is_slower is None


@pytest.mark.parametrize(
    ("told", "whole"),
    [
        ([False, False], False),
        ([False, True], True),
        ([None, True], True),
        ([None, False], None),
        ([None], None),
    ],
)
def test_the_answer_of_all_frameworks_is_no_only_if_each_says_no(
    told: list[bool | None], whole: bool | None
) -> None:
    answers = [Answer(text=str(one), is_slower=one) for one in told]
    found = all_answers(answers)
    assert found == Answer(text="; ".join(map(str, told)), is_slower=whole)


def test_without_a_reference_there_is_no_answer() -> None:
    assert all_answers([]) is None

"""What a reference stack, which never changes, says of the machine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from busbw import judge
from busbw.model import Answer, EarlierSession
from busbw.model import Device as Class

from .nightly import FIRST, Device, cases

POLICY = judge.POLICIES[Class.TPU]


def _answer(nights: list[EarlierSession], today: EarlierSession) -> Answer:
    return judge.machine_answer("jax", nights, today, POLICY, 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_as_fast_as_before_is_not_slower(seed: int) -> None:
    device = Device(seed)
    found = _answer(device.nights(6), device.night(6))
    assert not found.is_slower
    assert found.text.startswith("jax: the reference takes ")
    assert " x the time of its 6 earlier nights (limit 1.0" in found.text


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_that_slows_every_case_of_the_reference_is_slower(seed: int) -> None:
    device = Device(seed)
    found = _answer(device.nights(6), device.night(6, 1.06))
    assert found.is_slower
    assert found.text.startswith("jax: the reference takes 1.0")


def test_a_machine_that_got_faster_is_told_and_not_slower() -> None:
    device = Device(1)
    found = _answer(device.nights(6), device.night(6, 0.8))
    assert not found.is_slower
    assert found.text.startswith("jax: the reference takes 0.")


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
    assert found == Answer(text="jax: not told yet: this reference has no earlier night here")


def test_a_few_cases_share_nothing_that_could_be_told() -> None:
    device = Device(1, measured=cases(3))
    found = _answer(device.nights(6), device.night(6, 1.5))
    assert found.text.startswith("jax: not told from fewer than 6 cases")

"""A session judges the machine by the earlier times of the locked stack."""

from __future__ import annotations

from datetime import timedelta

import pytest

from busbw.extensions.stacks.session import (
    MachineJudgement,
    judge_machine,
)
from busbw.judge.policy import POLICIES
from busbw.model.stored import StoredSession
from busbw.model.words import DeviceClass
from tests.unit.judge.simulated_sessions import FIRST, Device, cases

TPU = POLICIES[DeviceClass.TPU]


def _answer(sessions: list[StoredSession], today: StoredSession) -> MachineJudgement:
    return judge_machine([("jax", sessions, today)], TPU)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [0.8, 1.0, 1.06])
def test_a_machine_is_slower_if_all_cases_of_the_reference_stack_are_slower_than_before(
    seed: int, factor: float
) -> None:
    device = Device(seed)
    answer = _answer(device.sessions(6), device.session(6, factor))
    assert answer.is_slower is (factor > 1)
    assert answer.text.startswith("the reference takes ")
    assert " x the time of its 6 earlier sessions, limit 1.0" in answer.text


def test_a_machine_is_slower_if_the_time_of_a_reference_case_rises_over_sessions() -> None:
    device = Device(2)
    slow = {device.cases[4]: 1.05}
    sessions = [device.session(day, slow if day >= 10 else 1.0) for day in range(20)]
    answer = _answer(sessions[:-1], sessions[-1])
    assert answer.is_slower
    since = f"{FIRST + timedelta(days=10):%Y-%m-%d}"
    assert f"{device.cases[4].name} is " in answer.text
    assert f"slower than expected over the last 10 sessions, since {since}" in answer.text


def test_a_machine_is_not_judged_by_fewer_than_6_cases_of_the_reference_stack() -> None:
    device = Device(1, measured=cases(3))
    answer = _answer(device.sessions(6), device.session(6, 1.5))
    assert answer.text.startswith("unknown from fewer than 6 cases")
    assert answer.is_slower is None


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [([1.0, 1.0], False), ([1.0, 1.06], True), ([None, 1.06], True), ([None, 1.0], None)],
)
def test_a_machine_is_judged_as_unchanged_only_if_every_framework_has_an_unchanged_reference(
    ratios: list[float | None], expected: bool | None
) -> None:
    references = []
    for ratio in ratios:
        device = Device(1)
        sessions = device.sessions(6) if ratio else []
        references.append(("jax", sessions, device.session(6, ratio or 1.0)))
    answer = judge_machine(references, TPU)
    assert answer.is_slower is expected
    assert answer.text.count("(jax)") == 2

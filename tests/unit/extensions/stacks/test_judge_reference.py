"""A session judges the machine by the earlier times of the locked stack."""

from __future__ import annotations

from datetime import timedelta

import pytest

from busbw.extensions.stacks.reference import judge_machine
from busbw.judge.policy import POLICIES
from busbw.model.stored import StoredSession
from busbw.model.words import DeviceClass
from tests.unit.judge.simulated_sessions import FIRST, Device, cases

TPU = POLICIES[DeviceClass.TPU]


def _answer(sessions: list[StoredSession], today: StoredSession) -> tuple[str, bool]:
    return judge_machine("jax", sessions, today, TPU)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [0.8, 1.0, 1.06])
def test_a_machine_is_slower_if_all_cases_of_the_reference_stack_are_slower_than_before(
    seed: int, factor: float
) -> None:
    device = Device(seed)
    text, is_slower = _answer(device.sessions(6), device.session(6, factor))
    assert is_slower is (factor > 1)
    assert text.startswith("the machine: jax: all ")
    assert " x the expected time (limit 1.0" in text
    assert "compared with 6 earlier sessions in --history" in text


def test_a_machine_is_slower_if_the_time_of_a_reference_case_rises_over_sessions() -> None:
    device = Device(2)
    slow = {device.cases[4]: 1.05}
    sessions = [device.session(day, slow if day >= 10 else 1.0) for day in range(20)]
    text, is_slower = _answer(sessions[:-1], sessions[-1])
    assert is_slower
    since = f"{FIRST + timedelta(days=10):%Y-%m-%d}"
    assert f"{device.cases[4].name} is " in text
    assert f"slower than expected over the last 10 sessions, since {since}" in text


@pytest.mark.parametrize(("case_count", "session_count"), [(3, 6), (6, 0)])
def test_a_machine_is_not_judged_by_fewer_than_6_cases_with_earlier_times_of_the_reference_stack(
    case_count: int, session_count: int
) -> None:
    device = Device(1, measured=cases(case_count))
    text, is_slower = _answer(device.sessions(session_count), device.session(6, 1.5))
    assert text == (
        "the machine: unknown from fewer than 6 cases of jax, "
        f"compared with {session_count} earlier sessions in --history"
    )
    assert not is_slower

"""A session judges the machine by the earlier times of the locked stack."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.driver.bundle import worker_hash
from busbw.extensions.stacks.session import (
    MachineJudgement,
    add_machine_judgement,
    judge_machine,
    session_finding,
    stack_judgement_text,
)
from busbw.history.files import append_lines
from busbw.judge.policy import POLICIES
from busbw.model.launch import Plan
from busbw.model.stored import Session
from busbw.model.verdict import SessionVerdict
from busbw.model.words import Device as DeviceKind
from busbw.model.words import Outcome, SessionOutcome
from busbw.session.options import LockedStack, Options
from busbw.session.state import JudgedSession, MeasuredSession, TimedJob
from tests.helpers import build
from tests.helpers.history_lines import line
from tests.unit.judge.simulated_sessions import FIRST, Device, cases


def test_the_machine_is_not_judged_by_reference_sessions_of_another_busbw_version(
    tmp_path: Path,
) -> None:
    stack = LockedStack(python="python", digest="a" * 16, flags={})
    old = line(is_reference=True, stack=stack.digest, paired=True)
    append_lines(tmp_path, build.key(), [old])
    assert "no earlier session" in _text(tmp_path, stack)
    append_lines(tmp_path, build.key(), [replace(old, session="f" * 16, worker=worker_hash())])
    assert "no earlier session" not in _text(tmp_path, stack)


def _text(history: Path, stack: LockedStack) -> str:
    """Return the answer for the machine."""
    case, spec = build.case(), build.spec()
    options = Options(stacks={"jax": stack}, history=history)
    machine: Any = SimpleNamespace(references=(), target=SimpleNamespace(device=DeviceKind.CPU))
    measured = MeasuredSession(
        options=options,
        specs=(spec,),
        skipped_verdicts={},
        jobs={spec: TimedJob(case=case, key=build.key())},
        references={spec: build.measurement(1e-3)},
        measurements={spec: build.measurement(1e-3)},
        environment=build.environment(),
        machine=machine,
        plan=Plan(),
    )
    judged = JudgedSession(
        session_verdict=SessionVerdict(outcomes=(SessionOutcome.PASS,), text="measured"),
        verdicts={},
        observations=measured,
    )
    return session_finding(judged).text


TPU = POLICIES[DeviceKind.TPU]


def _answer(sessions: list[Session], today: Session) -> MachineJudgement:
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


TEXT = "the reference takes 1.001 x the time of its 6 earlier sessions, limit 1.015 x (jax)"


@pytest.mark.parametrize(
    ("is_slower", "outcome"),
    [
        (False, SessionOutcome.PASS),
        (None, SessionOutcome.PASS),
        (True, SessionOutcome.MACHINE_SHIFT),
    ],
)
def test_the_outcome_of_a_session_is_machine_shift_only_if_the_machine_is_slower(
    is_slower: bool | None, outcome: SessionOutcome
) -> None:
    session = SessionVerdict(outcomes=(SessionOutcome.PASS,), text="1 case measured")
    machine = MachineJudgement(text=TEXT, is_slower=is_slower)
    session = add_machine_judgement(session, machine, stack_judgement_text([], []))
    stack = "the stack (the same versions): nothing slower"
    assert session.outcome is outcome
    assert session.text.endswith(f"1 case measured; {stack}; the machine: {TEXT}")


def test_the_text_about_a_slower_stack_names_three_cases_and_counts_the_others() -> None:
    slow = [
        build.verdict(Outcome.REGRESSED, failed=True, ratio=ratio)
        for ratio in (1.1, 1.3, 1.2, 1.15)
    ]
    name = "REGRESSED jax.all_reduce.psum.float32.4K"
    assert stack_judgement_text(slow, ["jaxlib 1 -> 2", "jax 1 -> 2"]) == (
        f"the stack (jaxlib 1 -> 2, jax 1 -> 2): {name} 1.300 x the expected time; "
        f"{name} 1.200 x the expected time; {name} 1.150 x the expected time; and 1 case more"
    )

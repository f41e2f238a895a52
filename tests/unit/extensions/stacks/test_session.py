"""A session judges the machine by the earlier times of the locked stack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from busbw.driver.bundle import worker_hash
from busbw.extensions.stacks.session import session_finding
from busbw.history.files import append_lines
from busbw.model.launch import Plan
from busbw.model.verdict import SessionVerdict
from busbw.model.words import Device, SessionOutcome
from busbw.session.options import LockedStack, Options
from busbw.session.state import Collected, Judged, Measured, TimedJob
from tests.helpers import build
from tests.helpers.history_lines import line


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
    machine: Any = SimpleNamespace(references=(), target=SimpleNamespace(device=Device.CPU))
    measured = Measured(
        collected=Collected(options=options),
        specs=(spec,),
        skipped_verdicts={},
        jobs={spec: TimedJob(case=case, key=build.key())},
        references={spec: build.measurement(1e-3)},
        measurements={spec: build.measurement(1e-3)},
        environment=build.environment(),
        machine=machine,
        plan=Plan(),
    )
    judged = Judged(
        collected=measured.collected,
        session_verdict=SessionVerdict(outcomes=(SessionOutcome.PASS,), text="measured"),
        observations=measured,
    )
    return session_finding(judged).text

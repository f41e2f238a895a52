"""The machine is judged by what the locked stack took in earlier sessions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from busbw.driver.bundle import worker_hash
from busbw.extensions.stacks.session import judge_reference
from busbw.history.files import append
from busbw.judge.policy import POLICIES
from busbw.model.words import Device
from busbw.session.options import LockedStack
from tests.helpers import build
from tests.helpers.history_lines import line


def test_sessions_of_a_reference_that_other_code_measured_do_not_count(tmp_path: Path) -> None:
    stack = LockedStack(python="python", digest="a" * 16, flags={})
    old = line(is_reference=True, stack=stack.digest, paired=True)
    append(tmp_path, build.key(), [old])
    assert "no earlier session" in _text(tmp_path, stack)
    append(tmp_path, build.key(), [replace(old, session="f" * 16, worker=worker_hash())])
    assert "no earlier session" not in _text(tmp_path, stack)


def _text(history: Path, stack: LockedStack) -> str:
    """Return the answer for the machine."""
    case, spec = build.case(), build.spec()
    measured: Any = SimpleNamespace(
        options=SimpleNamespace(stacks={"jax": stack}, history=history),
        jobs={spec: SimpleNamespace(case=case, key=build.key())},
        references={spec: build.measurement(1e-3)},
        measurements={spec: build.measurement(1e-3)},
        environment=build.environment(),
        machine=SimpleNamespace(references=()),
        policy=POLICIES[Device.CPU],
        collected=SimpleNamespace(began=datetime.now(UTC)),
    )
    answer, _ = judge_reference(cast(Any, measured))
    assert answer is not None
    return answer.text

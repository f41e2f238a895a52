"""Sessions that do not end, and the lines that show the progress of sessions."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from busbw.extensions.bisect import sessions
from busbw.extensions.bisect.bisection import Bisection, BisectionProgress
from busbw.extensions.bisect.sessions import Criterion, SessionRunner, Status
from busbw.extensions.stacks import environments
from busbw.extensions.stacks.environments import StackError

SLOW = Criterion(cases=("x",), problem="slow", ratio=2.0)
# A program that starts another process, and then stops, as after Ctrl+Z.
STOPPING_PROGRAM = """
import os, signal
child = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000")
with open("new", "w") as file:
    file.write(str(child))
os.rename("new", "child")
os.kill(os.getpid(), signal.SIGSTOP)
"""


def _runner(folder: Path) -> SessionRunner:
    return SessionRunner(framework="fake", options=(), baselines_folder=folder, is_compiling=False)


def _bisection(folder: Path) -> Bisection:
    return Bisection(
        package="made-up",
        releases=("1.0", "1.1", "1.2"),
        is_fixed=False,
        sessions=_runner(folder),
        folder=folder / "bisection",
        progress=BisectionProgress(command=()),
        pinned_requirements=(),
        interpreter="python",
    )


def _keeps_running(process_id: int) -> bool:
    """Return whether a process still runs after ten seconds, in which a killed process ends."""
    status = Path(f"/proc/{process_id}/stat")
    for _ in range(100):
        # A zombie has ended.
        if not status.exists() or status.read_text().rpartition(") ")[2][0] == "Z":
            return False
        time.sleep(0.1)
    return True


def _begin_deadlines_with(child: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the deadline of a command begin when the file `child` exists.

    A busy machine may need many seconds to start a process.
    """
    communicate = subprocess.Popen.communicate

    def wait_and_communicate(process: Any, text: bytes, timeout: float) -> Any:
        end_s = time.monotonic() + 100
        while not child.exists():
            assert time.monotonic() < end_s
            time.sleep(0.02)
        return communicate(process, text, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", wait_and_communicate)


@pytest.mark.slow
def test_a_release_whose_session_is_stopped_is_untestable_and_its_processes_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "COMMAND_DEADLINE_S", 1.0)
    monkeypatch.setattr(environments, "GRACE_S", 0.1)
    monkeypatch.setattr(Bisection, "_build_environment", lambda bisection, release: "python")
    # A session is `python -m busbw`, which prefers the package in the working directory.
    (tmp_path / "busbw").mkdir()
    (tmp_path / "busbw" / "__init__.py").touch()
    (tmp_path / "busbw" / "__main__.py").write_text(STOPPING_PROGRAM)
    monkeypatch.chdir(tmp_path)
    _begin_deadlines_with(tmp_path / "child", monkeypatch)
    bisection = _bisection(tmp_path)
    assert bisection._test_release("1.1", SLOW) is Status.UNTESTABLE
    (test,) = bisection.progress.tested
    assert test.reason.endswith(": did not end within 1 s and was killed")
    assert not _keeps_running(int((tmp_path / "child").read_text()))


@pytest.mark.slow
def test_a_release_is_untestable_if_the_command_that_builds_its_environment_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "COMMAND_DEADLINE_S", 1.0)
    monkeypatch.setattr(environments, "GRACE_S", 0.1)
    (program := tmp_path / "uv").write_text(
        f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/new\n"
        f"mv {tmp_path}/new {tmp_path}/child\nkill -STOP $$\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name, path: str(program))
    _begin_deadlines_with(tmp_path / "child", monkeypatch)
    bisection = _bisection(tmp_path)
    assert bisection._test_release("1.1", SLOW) is Status.UNTESTABLE
    (test,) = bisection.progress.tested
    assert test.reason == "uv: did not end within 1 s and was killed"
    assert not _keeps_running(int((tmp_path / "child").read_text()))


def test_each_session_prints_the_release_the_number_of_the_session_and_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times_s = iter([0.0, 12.5, 20.0, 20.2, 30.0, 31.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times_s))
    monkeypatch.setattr(sessions, "run_command", lambda command, **arguments: "")
    runner = _runner(tmp_path)
    for subject, count in (("jaxlib 0.7.0", 2), ("jaxlib 0.7.1", 1)):
        runner.begin_subject(subject)
        for _ in range(count):
            with pytest.raises(StackError, match=r"^the results of the session: No such file"):
                runner.run_alone("python")
    assert capsys.readouterr().err.splitlines() == [
        "busbw: jaxlib 0.7.0",
        "busbw: jaxlib 0.7.0: session 1: 12.5 s",
        "busbw: jaxlib 0.7.0: session 2: 0.2 s",
        "busbw: jaxlib 0.7.1",
        "busbw: jaxlib 0.7.1: session 1: 1.0 s",
    ]

"""How a process is started: without a fork of ours, and never left by a parent that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.driver.local import command_tied_to_parent
from tests.helpers.workers import processes, wait_until

pytestmark = pytest.mark.workers

# Each parent starts a process, and is killed so many seconds later.
_KILLED_PARENTS = """
import os, signal, subprocess, sys, time
from busbw.driver.local import start_child

for delay_s in (0, 0.002, 0.005, 0.01, 0.02, 0.05):
    parent = os.fork()
    if parent == 0:
        command = [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]]
        start_child(command, (subprocess.DEVNULL,) * 3, os.environ)
        time.sleep(delay_s)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(parent, 0)
"""

_WITH_FORK_HOOKS = """
import os, subprocess, sys
from busbw.driver.local import start_child

hooks = []
os.register_at_fork(
    before=lambda: hooks.append("before"), after_in_parent=lambda: hooks.append("after")
)
command, streams = [sys.executable, "-c", "print(1)"], (subprocess.DEVNULL, None, None)
process = start_child(command, streams, os.environ)
print(process.wait(), hooks)
"""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_driver_starts_a_worker_process_without_fork_hooks_of_libraries() -> None:
    done = _run(sys.executable, "-c", _WITH_FORK_HOOKS)
    assert (done.stdout, done.stderr) == ("1\n0 []\n", "")


def test_a_parent_that_is_killed_while_it_starts_a_process_leaves_no_process(
    tmp_path: Path,
) -> None:
    assert _run(sys.executable, "-c", _KILLED_PARENTS, str(tmp_path)).returncode == 0
    assert wait_until(lambda: not processes(tmp_path))


@pytest.mark.parametrize(("others", "ends"), [(0, (0, "runs\n")), (1, (1, ""))])
def test_a_command_that_is_tied_to_an_ended_parent_is_not_run(
    others: int, ends: tuple[int, str]
) -> None:
    done = _run(*command_tied_to_parent(os.getpid() + others, ["echo", "runs"]))
    assert (done.returncode, done.stdout) == ends


def test_a_command_that_cannot_be_started_prints_the_reason(tmp_path: Path) -> None:
    done = _run(*command_tied_to_parent(os.getpid(), [str(tmp_path / "python")]))
    assert (done.returncode, done.stderr) == (
        127,
        f"{tmp_path}/python cannot be started: No such file or directory\n",
    )


def test_a_started_command_does_not_ignore_the_signals_that_python_ignores() -> None:
    done = _run(*command_tied_to_parent(os.getpid(), ["grep", "SigIgn", "/proc/self/status"]))
    mask = int(done.stdout.split()[1], 16)
    assert not mask >> (signal.SIGPIPE - 1) & 1
    assert not mask >> (signal.SIGXFSZ - 1) & 1

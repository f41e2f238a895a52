"""Locks that are no files: who holds one is named, and its end, however it comes, gives it back."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw import locks
from busbw.locks import Busy, Holder
from tests.helpers.workers import can_unshare

ROOT = Path(__file__).parents[2]

# Takes the machine, says so, and keeps it until its stdin ends.
HOLDS = """
import sys
from busbw import locks
with locks.machine(0):
    print("held", flush=True)
    sys.stdin.read()
"""
# Says whether the machine is free: as the user of the first argument, if there is one.
LOOKS = """
import os, sys
from busbw import locks
if sys.argv[1:]:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
try:
    with locks.machine(0):
        print("free")
except locks.Busy as error:
    print(error)
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The variable by which this test is alone on its machine."""
    monkeypatch.setenv(locks.MACHINE, str(tmp_path))
    return str(tmp_path)


@contextlib.contextmanager
def holding(program: str = HOLDS) -> Iterator[subprocess.Popen[str]]:
    """A process that has the machine's lock."""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_one_process_at_a_time_has_the_machine_and_the_other_hears_which(machine: str) -> None:
    with holding() as process:
        began = time.strftime("%H:%M")
        with pytest.raises(Busy, match=rf"^pid {process.pid}, started (\S+ )?\d\d:\d\d:\d\d$") as e:
            locks.machine(0).__enter__()
        assert abs((e.value.holder.started_s or 0) - time.time()) < 60, began
    with locks.machine(0):
        pass


def test_it_waits_until_the_other_gives_it_back(machine: str) -> None:
    told: list[Holder] = []

    def end(holder: Holder) -> None:
        told.append(holder)
        process.communicate()

    with holding() as process, locks.machine(60, end):
        assert [holder.process for holder in told] == [process.pid]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_killed_gives_it_back(machine: str, number: signal.Signals) -> None:
    with holding() as process:
        process.send_signal(number)
        process.wait()
        with locks.machine(0):
            pass


def test_neither_a_program_that_is_started_nor_a_fork_keeps_it(machine: str) -> None:
    started = HOLDS.replace(
        "    print",
        "    import os, subprocess, time\n"
        "    fork = os.fork() or time.sleep(600)\n"
        "    child = subprocess.Popen(['sleep', '600'], close_fds=False)\n"
        "    print(fork, child.pid, file=sys.stderr)\n    print",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", started],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "held\n"
    children = [int(word) for word in process.stderr.readline().split()]
    try:
        process.kill()
        process.wait()
        # The fork releases it as soon as it runs, not when it ends.
        with locks.machine(10):
            pass
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        process.communicate()


def test_who_has_the_name_without_listening_is_not_named_and_makes_others_wait_only(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[str] = []
    monkeypatch.setattr(socket.socket, "bind", lambda self, name: bound.append(name))
    with contextlib.suppress(OSError):
        locks.machine(0).__enter__()
    monkeypatch.undo()
    monkeypatch.setenv(locks.MACHINE, machine)
    (name,) = bound
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(name)
        with pytest.raises(Busy, match=r"^a process that is not visible here$"):
            locks.machine(0.1).__enter__()


def in_a_network_of_its_own(script: str) -> str:
    """What a shell script prints there, with no variable that names the machine.

    A network namespace is a machine of its own: nobody measures in there.
    """
    environment = {name: text for name, text in os.environ.items() if name != locks.MACHINE}
    environment |= {"HOLDS": HOLDS, "LOOKS": LOOKS, "PYTHON": sys.executable}
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", script],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=60,
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.skipif(not can_unshare("--net"), reason="needs a network namespace of its own")
@pytest.mark.parametrize("user", ["", "65534"])
def test_it_is_the_same_machine_with_another_tmpdir_and_for_another_user(
    tmp_path: Path, user: str
) -> None:
    if user and os.getuid() != 0:
        pytest.skip("only root can be another user")
    script = f"""
        coproc HOLDER {{ TMPDIR={tmp_path} exec "$PYTHON" -c "$HOLDS"; }}
        pid=$HOLDER_PID
        read -r line <&"${{HOLDER[0]}}"; echo "$line"
        TMPDIR=/ "$PYTHON" -c "$LOOKS" {user}
        eval "exec ${{HOLDER[1]}}>&-"; wait $pid
        TMPDIR=/ "$PYTHON" -c "$LOOKS" {user}
    """
    held, busy, free = in_a_network_of_its_own(script).splitlines()
    assert (held, free) == ("held", "free")
    assert busy.startswith("pid ")


@pytest.mark.skipif(not can_unshare("--pid", "--fork"), reason="needs a PID namespace of its own")
def test_a_process_of_another_pid_namespace_holds_it_too_but_has_no_number(machine: str) -> None:
    with holding(), pytest.raises(Busy):
        locks.machine(0).__enter__()
    with holding():
        done = subprocess.run(
            ["unshare", "--pid", "--fork", sys.executable, "-c", LOOKS],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=True,
        )
    assert done.stdout == "a process that is not visible here\n"


def test_one_process_at_a_time_has_a_folder(tmp_path: Path) -> None:
    with locks.folder(tmp_path, 0):
        with pytest.raises(Busy) as error:
            locks.folder(tmp_path, 0).__enter__()
        assert error.value.holder.process == os.getpid()
    with locks.folder(tmp_path, 0):
        pass
    assert not list(tmp_path.iterdir())


def test_a_link_to_a_folder_is_not_taken_for_it(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(OSError, match="link"):
        locks.folder(link, 0).__enter__()


def test_closing_a_lock_twice_closes_nothing_else(tmp_path: Path) -> None:
    held = locks.of_folder(tmp_path)
    assert held is not None
    held.close()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    held.close()
    os.fstat(descriptor)
    os.close(descriptor)


def test_a_day_that_is_not_today_is_said() -> None:
    assert Holder(process=7).text == "pid 7"
    assert Holder(process=7, started_s=time.time()).text.count("-") == 0
    text = Holder(process=7, started_s=time.time() - 2 * 24 * 3600).text
    assert text.startswith("pid 7, started 20") and text.count("-") == 2

"""Sessions that a signal ends: measured cases are shown, and no worker remains."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.session_folder import FAKE, WITHOUT_CACHE, Folder
from tests.helpers.sweep import sweep
from tests.helpers.workers import can_unshare, processes, state, wait_until, write_program

SOON_S = 5.0


def start_hanging_session(folder: Folder, event: str = "hang") -> subprocess.Popen[bytes]:
    """Start a session, and wait until its second launch hangs in a case."""
    folder.script(cases=[{"passes": [2], "then": event}])
    session = folder.start("--launches=3", "--update-baselines")
    assert wait_until(lambda: launches_hanging(folder)), folder.output
    return session


def launches_hanging(folder: Folder) -> bool:
    """Return whether the second launch has reached the case in which it hangs."""
    logs = folder.temporary.glob("busbw-*/2.fake*.log")
    return any("the script says" in log.read_text() for log in logs)


def all_workers_end(folder: Folder) -> bool:
    """Return whether all worker processes of the session end within some seconds."""
    return wait_until(lambda: not processes(folder.temporary), SOON_S)


def interrupt(session: subprocess.Popen[bytes]) -> None:
    """Interrupt the session as Ctrl-C does, and check the exit code of pytest."""
    session.send_signal(signal.SIGINT)
    assert session.wait(30) == 2


def forget_bundles(folder: Folder) -> None:
    """Remove the folder that a killed session could not remove."""
    for path in folder.temporary.glob("busbw-*/"):
        shutil.rmtree(path)


def test_a_session_that_ctrl_c_ends_stores_no_baseline(folder: Folder) -> None:
    session = start_hanging_session(folder)
    interrupt(session)
    assert all_workers_end(folder)
    assert "KeyboardInterrupt" in folder.output
    assert not folder.baseline_files
    assert not folder.left_over()


@pytest.mark.exhaustive
def test_ctrl_c_during_the_probe_leaves_no_worker_and_no_file(folder: Folder) -> None:
    folder.script(probe="hang")
    session = folder.start()
    logs = folder.temporary.glob
    assert wait_until(lambda: any("the script" in p.read_text() for p in logs("busbw-*/*.log")))
    interrupt(session)
    assert all_workers_end(folder)
    assert not folder.left_over()


@pytest.mark.exhaustive
def test_a_worker_has_a_separate_process_group_so_that_ctrl_c_reaches_only_pytest(
    folder: Folder,
) -> None:
    session = start_hanging_session(folder)
    (worker,) = processes(folder.temporary)
    assert os.getpgid(worker) == worker != os.getpgid(session.pid)
    interrupt(session)


ENDING = [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


@pytest.mark.parametrize("number", sweep(ENDING))
@pytest.mark.parametrize("event", sweep(["hang", "hang_with_lock"]))
def test_a_killed_session_leaves_no_worker_and_leaves_its_folder_only_after_sigkill(
    folder: Folder, number: signal.Signals, event: str
) -> None:
    session = start_hanging_session(folder, event)
    assert processes(folder.temporary)
    session.send_signal(number)
    assert session.wait(30) == -number
    assert all_workers_end(folder)
    assert not folder.baseline_files
    if number == signal.SIGKILL:
        forget_bundles(folder)
    assert not folder.left_over()


@pytest.mark.exhaustive
def test_five_keyboard_interrupts_in_a_tenth_of_a_second_leave_no_worker_and_no_file(
    folder: Folder,
) -> None:
    session = start_hanging_session(folder)
    for _ in range(5):
        session.send_signal(signal.SIGINT)
        time.sleep(0.01)
    assert session.wait(30) in (2, -signal.SIGINT)
    assert all_workers_end(folder)
    assert not folder.left_over()


@pytest.mark.exhaustive
def test_a_session_whose_parent_process_ignores_sighup_survives_sighup(folder: Folder) -> None:
    folder.script(cases=[{"passes": [2], "then": "hang"}])
    command = (
        f"trap '' HUP; exec {shlex.join(folder.command(*FAKE, *WITHOUT_CACHE, '--launches=3'))}"
    )
    session = subprocess.Popen(["sh", "-c", command], cwd=folder.path, stdout=subprocess.DEVNULL)
    assert wait_until(lambda: launches_hanging(folder))
    session.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert processes(folder.temporary)
    session.terminate()
    assert session.wait(30) == -signal.SIGTERM
    assert all_workers_end(folder)


COMPILED = ("perf", "--frameworks=fake", "--payloads=1M", "--topology=v5e:2x4", *WITHOUT_CACHE)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("launch", "options"),
    sweep(
        [
            ("probe", (*FAKE, *WITHOUT_CACHE)),
            ("1.fake", (*FAKE, *WITHOUT_CACHE)),
            # By a thread that is not the first.
            pytest.param(
                *("compile-2", (*COMPILED, "--compile-cache=none")),
                marks=pytest.mark.extension("compiled"),
            ),
        ]
    ),
)
def test_a_worker_that_was_stopped_at_its_start_ends_when_pytest_is_killed(
    folder: Folder, launch: str, options: tuple[str, ...]
) -> None:
    python = interpreter(folder, f'case "$*" in *--launch={launch}*) kill -STOP $$;; esac')
    session = folder.begin(*options, f"--python=fake={python}")
    assert wait_until(lambda: "T" in [state(process) for process in processes(folder.temporary)])
    session.kill()
    session.wait()
    assert all_workers_end(folder)
    forget_bundles(folder)


def interpreter(folder: Folder, before: str) -> Path:
    """Return an interpreter that runs `before` in a shell before it starts."""
    text = f'#!/bin/sh\n{before}\nexec {sys.executable} "$@"\n'
    return write_program(folder.path / "interpreter", text)


def test_a_program_that_a_worker_started_ends_when_the_worker_ends(folder: Folder) -> None:
    child = f"{sys.executable} -c 'import time; time.sleep(600)' {folder.temporary} &"
    folder.run(f"--python=fake={interpreter(folder, child)}", "--launches=3", exit_code=0)
    assert not processes(folder.temporary)


def test_a_session_removes_the_folder_that_an_earlier_killed_session_left(
    folder: Folder,
) -> None:
    session = start_hanging_session(folder)
    session.kill()
    session.wait()
    assert folder.left_over()
    folder.script()
    assert folder.run("--device-wait=10", exit_code=0).outcomes == {"1M": "NO_BASELINE"}
    assert not folder.left_over()


@pytest.mark.exhaustive
@pytest.mark.skipif(not can_unshare("--pid", "--fork"), reason="needs a PID namespace of its own")
def test_a_session_does_not_remove_the_folder_of_a_session_in_another_pid_namespace(
    folder: Folder,
) -> None:
    session = start_hanging_session(folder)
    (bundle,) = folder.temporary.iterdir()
    paths = sorted(bundle.rglob("*"))
    folder.script()
    folder.environment.setenv("BUSBW_MACHINE", str(folder.path / "another"))
    apart = ["unshare", "--pid", "--fork", *folder.command(*FAKE, *WITHOUT_CACHE)]
    assert subprocess.run(apart, cwd=folder.path, check=False, capture_output=True).returncode == 0
    assert paths == sorted(bundle.rglob("*"))
    interrupt(session)
    assert not folder.left_over()


def test_a_worker_that_is_ended_by_sigkill_fails_only_the_case_that_it_measured(
    folder: Folder,
) -> None:
    folder.script(cases=[{"passes": [2], "payload_bytes": 2048, "then": "hang"}])
    session = folder.start("--launches=3", "--payloads=1K:4K")
    assert wait_until(lambda: launches_hanging(folder)), folder.output
    (worker,) = processes(folder.temporary)
    os.kill(worker, signal.SIGKILL)
    assert session.wait(60) == 1
    assert all_workers_end(folder)
    assert (
        "1 FAILED: fake 2K: killed in 1 of 3 launches: the worker was killed (SIGKILL)"
        in folder.output
    )
    assert "the script says hang" in folder.output
    assert "1 failed, 2 without baseline" in folder.output

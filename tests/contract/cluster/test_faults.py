"""Faults on one of two hosts: the affected case fails, and no process remains on a host."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.contract.cluster.conftest import Hosts, text_of
from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep
from tests.helpers.workers import processes, wait_until

pytestmark = pytest.mark.sessions


def start_hanging_session(folder: Folder, hosts: Hosts, *options: str) -> subprocess.Popen[bytes]:
    """Start a session that measures 1K and then hangs in 2K on host two."""
    session = folder.start("--payloads=1K,2K", *options, *hosts.options)
    logs = f"{hosts.temporary}/busbw*/*.log"
    hangs = "the script says hang"
    assert wait_until(lambda: any(hangs in text_of(Path(name)) for name in glob.glob(logs)), 90)
    return session


def test_a_session_on_two_hosts_runs_a_process_on_each_host_and_leaves_no_process_behind(
    folder: Folder, hosts: Hosts
) -> None:
    key = folder.run("--payloads=1K", *hosts.options, exit_code=0).document["environment"]["key"]
    assert (key["hosts"], key["processes"], key["ranks"]) == (2, 2, 2)
    assert wait_until(lambda: not hosts.left, 20), hosts.left


def test_a_killed_or_hanging_worker_on_another_host_fails_only_the_case_that_it_measures(
    folder: Folder, hosts: Hosts
) -> None:
    ran = folder.run("--payloads=1K,2K,4K,8K", "--case-timeout=3", *hosts.options, exit_code=1)
    expected = {"1K": "NO_BASELINE", "2K": "FAILED", "4K": "FAILED", "8K": "NO_BASELINE"}
    assert ran.outcomes == expected
    assert "worker 1 on two: the worker did not answer within 3" in ran.case("2K")["text"]
    assert "worker 1 on two: the worker was killed (SIGKILL)" in ran.case("4K")["text"]
    assert wait_until(lambda: not hosts.left, 20), hosts.left


def test_a_session_names_the_host_whose_process_was_killed(folder: Folder, hosts: Hosts) -> None:
    session = start_hanging_session(folder, hosts)
    os.kill(hosts.pid("two"), signal.SIGKILL)
    assert session.wait(90) == 1
    assert "two is gone" in folder.output
    assert wait_until(lambda: not processes(hosts.temporary), 20)
    # The next session there removes the folder of what was killed.
    folder.run("--payloads=1K", exit_code=0)


@pytest.mark.exhaustive
def test_a_session_names_the_host_of_a_stopped_process_after_the_timeout_of_a_case(
    folder: Folder, hosts: Hosts
) -> None:
    session = start_hanging_session(folder, hosts, "--case-timeout=5", "--device-wait=3")
    process = hosts.pid("two")
    os.kill(process, signal.SIGSTOP)
    try:
        assert session.wait(110) == 1
        assert "two is gone: it does not answer" in folder.output
    finally:
        # An ssh that is killed here takes its host with it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
    assert wait_until(lambda: not processes(hosts.temporary), 20)
    folder.run("--payloads=1K", exit_code=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("hosts", ["dask"], indirect=True)
def test_a_session_names_a_host_on_which_another_session_measures(
    folder: Folder, hosts: Hosts
) -> None:
    first = start_hanging_session(folder, hosts)
    # Else the second session would wait for the first one here.
    folder.environment.setenv("BUSBW_MACHINE", f"{folder.path}/elsewhere")
    ran = folder.run("--device-wait=2", *hosts.options, exit_code=4)
    assert "one: another session has been measuring on this machine for 2 s (pid " in ran.sentence
    assert "another busbw session measures on one; waiting for its end" in ran.text
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("hosts", ["dask"], indirect=True)
def test_a_killed_dask_scheduler_and_a_killed_session_leave_no_process_on_the_hosts(
    folder: Folder, hosts: Hosts
) -> None:
    session = start_hanging_session(folder, hosts)
    assert hosts.scheduler is not None
    hosts.scheduler.kill()
    session.kill()
    assert wait_until(lambda: not processes(hosts.temporary), 30)
    folder.run("--payloads=1K", exit_code=0)


@pytest.mark.parametrize("number", sweep([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
def test_a_killed_session_leaves_no_process_on_the_hosts(
    folder: Folder, hosts: Hosts, number: signal.Signals
) -> None:
    session = start_hanging_session(folder, hosts)
    session.send_signal(number)
    assert session.wait(60) != 0
    assert wait_until(lambda: not processes(hosts.temporary), 20)
    folder.run("--payloads=1K", "--device-wait=10", *hosts.options, exit_code=0)

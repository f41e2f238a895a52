"""Agents and sessions that end, and locks of hosts: what others do; nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import busbw
from busbw import locks
from busbw.driver.agents import AgentGone
from busbw.driver.bundle import Bundle
from busbw.driver.group import Group
from busbw.driver.hub import Timing
from busbw.driver.local import BusyError
from busbw.driver.transport import Request
from busbw.model.training import ALONE
from busbw.model.words import FailureKind
from tests.agent.agents import LONG_S, lock_of
from tests.sweep import sweep

from .agent_groups import CLUSTER, LAUNCH, failure, group, local, remote
from .processes import processes, wait_until
from .scripts import KEY, measure, starter

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_an_agent_that_is_killed_fails_the_request_and_is_named(bundle: Bundle) -> None:
    begin = starter(cases=[{"then": "hang"}])
    with remote(bundle, "one", "two") as (transport, pids), group(transport, begin) as members:
        timer = threading.Timer(0.3, os.kill, (pids[1], signal.SIGKILL))
        timer.start()
        key = replace(KEY, processes=4)
        asked = Request("measure", {**measure().values, "key": key})
        found = failure(members.ask(asked, LONG_S, "measuring"))
        timer.join()
        assert found.kind is FailureKind.KILLED
        assert found.message.startswith("worker 2 on two: the agent on two (rank 1) is gone: ")
        assert members.is_over
        # It is gone for good.
        for _ in range(2):
            with pytest.raises(AgentGone, match=r"the agent on two \(rank 1\) is gone: "):
                Group(transport, begin, LAUNCH, CLUSTER)
        # A process by itself is on the first one.
        with group(transport, cluster=ALONE) as alone:
            assert alone.close()


def test_an_agent_of_this_session_is_started_again(bundle: Bundle) -> None:
    with local(bundle) as transport:
        assert transport._starter is not None
        for _ in range(2):
            os.kill(transport._starter.pid(1), signal.SIGKILL)
            assert wait_until(lambda: not transport.is_ready(1), LONG_S)
            with group(transport) as members:
                assert members.close()


def test_an_agent_that_gives_no_sign_of_life_is_gone(bundle: Bundle) -> None:
    timing = Timing(beat_s=0.1, missed_s=4.0)
    with remote(bundle, "one", timing=timing) as (transport, pids):
        with group(transport, starter(cases=[{"then": "hang"}]), ALONE) as alone:
            os.kill(pids[0], signal.SIGSTOP)
            found = failure(alone.ask(measure(), LONG_S, "measuring"))
        assert "the agent on one (rank 0) is gone: no sign of life for 4 s" in found.message
        os.kill(pids[0], signal.SIGCONT)


_SESSION = """
import socket, sys, time
from busbw.driver.agents import AgentsTransport
from busbw.driver.bundle import Bundle
from busbw.driver.group import Group
from busbw.driver.agent_starters import LocalAgents
from busbw.model.training import ALONE
from busbw.model.launch import LaunchId
from tests.driver.scripts import starter

bundle = Bundle()
port = socket.create_server(("127.0.0.1", 0))
starter_ = LocalAgents(bundle, port.getsockname()[1], b"x" * 32)
transport = AgentsTransport(bundle, port, b"x" * 32, 2, starter=starter_)
transport.join(60)
group = Group(transport, starter(), LaunchId.parse("1"))
assert group.begin(60) is None
print(starter_.pid(0), starter_.pid(1), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", sweep([signal.SIGKILL, signal.SIGTERM]))
def test_a_session_that_is_killed_leaves_no_agent_and_no_worker(
    tmp_path: Path, number: signal.Signals
) -> None:
    root = Path(busbw.__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", _SESSION],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(root), TMPDIR=str(tmp_path)),
    )
    with process:
        assert process.stdout is not None
        agents = [int(word) for word in process.stdout.readline().split()]
        assert len(agents) == 2
        assert processes(tmp_path)
        process.send_signal(number)
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in agents), 20)
    assert wait_until(lambda: not processes(tmp_path), 20)


def test_a_host_on_which_another_session_measures_is_waited_for_and_named(
    bundle: Bundle,
) -> None:
    said: list[str] = []
    with remote(bundle, "one", "two") as (transport, pids):
        busy = pytest.raises(BusyError, match=f"on one for 3 s .pid {os.getpid()}, started")
        with lock_of("one", 1), busy:
            transport.lock(3, said.append)
        assert said == ["another busbw session measures on one; waiting for its end"]
        transport.lock(3)
        with pytest.raises(locks.Busy, match=f"pid {pids[0]}, "), lock_of("one", 0):
            pass
    with lock_of("one", 10):
        pass


def test_the_session_holds_the_lock_of_its_own_host_itself(bundle: Bundle) -> None:
    with locks.machine(10), local(bundle, 1) as transport:
        transport.lock(1)

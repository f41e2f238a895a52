"""Groups on agents: as without one; who joins, who does not, and how each end is told."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from busbw import locks
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, probe
from busbw.driver.group import Group
from busbw.driver.local import BusyError
from busbw.driver.transport import (
    AgentGone,
    AgentsError,
    AgentsMissing,
    IncomparableHosts,
    Request,
    Starter,
)
from busbw.hosts.handshake import Place, joined
from busbw.hosts.hub import Timing
from busbw.hosts.peers import AgentWorker
from busbw.model.cluster import ALONE, Cluster
from busbw.model.launch import Run
from busbw.model.machine import Probe
from busbw.model.words import FailureKind
from tests.helpers.agents import HOST, LONG_S, SECRET, agent, ended, lock_of
from tests.helpers.sweep import sweep
from tests.helpers.workers import KEY, failure, interpreter, measure, starter, state, wait_until
from tests.unit.hosts.agent_groups import (
    CLUSTER,
    LAUNCH,
    group,
    local,
    of_this_host,
    remote,
    waiting,
    workers,
)

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.workers]


def test_one_by_itself_measures_as_without_an_agent(bundle: Bundle) -> None:
    with local(bundle, 1) as transport, group(transport, cluster=ALONE) as alone:
        run = alone.ask(measure(), LONG_S, "measuring")
        assert isinstance(run, Run)
        assert run.launch == LAUNCH
        assert alone.close()


def test_the_members_of_a_group_are_spread_over_agents_in_order(bundle: Bundle) -> None:
    with remote(bundle, "one", "two") as (transport, _):
        assert [transport.hub.peers[rank].host for rank in (0, 1)] == ["one", "two"]
        found = transport.cluster_members(CLUSTER)
        assert [member.index for member in found] == [0, 1, 2, 3]
        assert {member.hosts for member in found} == {2}
        addresses = found[0].addresses
        assert len(set(addresses)) == 4
        assert {address.split(":")[0] for address in addresses} == {HOST}
        with group(transport) as running:
            ranks = [
                one._peer.rank for one in running.members.values() if isinstance(one, AgentWorker)
            ]
            assert ranks == [0, 0, 1, 1]
            assert running.close()


@pytest.mark.exhaustive
def test_processes_of_one_launch_see_how_many_hosts_there_are(bundle: Bundle) -> None:
    begin = replace(starter(), processes=4)
    with remote(bundle, "one", "one", "two", "two") as (transport, _):
        found = probe(begin, Executor(transport))
        assert isinstance(found, Probe)
        assert (found.devices[0].processes, found.devices[0].hosts) == (4, 2)


def test_processes_that_cannot_be_shared_equally_are_refused(bundle: Bundle) -> None:
    with (
        local(bundle) as transport,
        pytest.raises(AgentsError, match="3 processes cannot be shared equally by 2 agents"),
    ):
        Group(transport, starter(), LAUNCH, Cluster(processes=3))


@pytest.mark.exhaustive
def test_hosts_with_different_numbers_of_agents_are_refused(bundle: Bundle) -> None:
    for hosts in (("one", "two", "two"), ("one", "two", "one")):
        with remote(bundle, *hosts) as (transport, _), pytest.raises(AgentsError) as refused:
            transport.cluster_members(Cluster(processes=3))
        assert f"the agents are on {', '.join(hosts)}, by rank" in str(refused.value)


@pytest.mark.parametrize(
    ("then", "kind", "message"),
    sweep(
        [
            ("kill", FailureKind.KILLED, "the worker was killed (SIGKILL) while measuring"),
            (
                "exit",
                FailureKind.CRASHED,
                "the worker ended with exit code 3 while measuring: the script says exit",
            ),
            (
                "segfault",
                FailureKind.CRASHED,
                "the worker died of SIGSEGV while measuring: Fatal Python error: Segmentation "
                "fault in string_at (__init__.py, line ",
            ),
        ]
    ),
)
def test_a_worker_that_ends_is_told_apart_as_without_an_agent(
    bundle: Bundle, then: str, kind: FailureKind, message: str
) -> None:
    begin = starter(cases=[{"then": then}])
    with local(bundle, 1) as transport, group(transport, begin, ALONE) as alone:
        found = failure(alone.ask(measure(), LONG_S, "measuring"))
    assert found.kind is kind
    assert found.message.startswith(message)
    assert f"the script says {then}" in found.log


@pytest.mark.exhaustive
def test_a_worker_that_hangs_is_killed_at_the_deadline_with_its_stack(bundle: Bundle) -> None:
    begin = starter(cases=[{"then": "hang"}])
    with local(bundle, 1) as transport, group(transport, begin, ALONE) as alone:
        found = failure(alone.ask(measure(), 0.5, "measuring"))
    assert found.kind is FailureKind.TIMEOUT
    assert 'fake/backend.py", line' in found.log


def test_a_worker_that_answers_something_else_is_killed(bundle: Bundle, tmp_path: Path) -> None:
    program = tmp_path / "babbling"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys, time\n"
        "fd = int(sys.argv[-1].split('=')[1])\n"
        "while True: os.write(fd, b'no reply' * 1000)\n"
    )
    program.chmod(0o755)
    begin = Starter(python=str(program), framework="fake")
    with local(bundle, 1) as transport:
        found = failure(Group(transport, begin, LAUNCH).begin(LONG_S))
    assert "the worker's reply is invalid (more than 16777216 bytes)" in found.message


def test_an_interpreter_that_an_agent_does_not_have_fails_the_launch(bundle: Bundle) -> None:
    with local(bundle, 1) as transport:
        begin = Starter(python="/no/such/python", framework="fake")
        found = failure(Group(transport, begin, LAUNCH).begin(LONG_S))
    why = "/no/such/python cannot be started: No such file or directory"
    assert found.message == f"the worker ended with exit code 127 while starting: {why}"


def test_one_that_is_interrupted_from_another_thread_is_seen_by_who_asks(bundle: Bundle) -> None:
    begin = starter(cases=[{"then": "hang"}])
    with local(bundle, 1) as transport, group(transport, begin, ALONE) as alone:
        timer = threading.Timer(0.3, alone.interrupt)
        timer.start()
        found = failure(alone.ask(measure(), LONG_S, "measuring"))
        timer.join()
    assert found.kind is FailureKind.KILLED


def test_a_group_of_which_one_is_stopped_at_its_start_is_killed(
    bundle: Bundle, tmp_path: Path
) -> None:
    python = interpreter(tmp_path, "1.fake", times=1, act="kill -STOP $$")
    with local(bundle, 1) as transport:
        members = Group(transport, starter(python), LAUNCH, ALONE)
        assert wait_until(lambda: any(state(one) == "T" for one in workers()), LONG_S)
        found = failure(members.begin(0.2))
    assert found.kind is FailureKind.TIMEOUT


def test_one_that_a_signal_has_stopped_is_named_at_the_deadline(bundle: Bundle) -> None:
    begin = starter(cases=[{"then": "hang"}])
    with local(bundle) as transport, group(transport, begin, Cluster(processes=2)) as pair:
        asked = Request("measure", {**measure().values, "key": replace(KEY, processes=2)})
        os.kill(max(workers()), signal.SIGSTOP)
        found = failure(pair.ask(asked, 1.0, "measuring"))
    assert found.kind is FailureKind.TIMEOUT
    assert "as a signal has stopped it, while measuring" in found.message


def test_no_command_line_and_no_environment_has_the_secret(bundle: Bundle) -> None:
    secret = secrets.token_hex(32)
    with contextlib.closing(of_this_host(bundle, secret.encode(), 1)) as transport:
        transport.join(LONG_S)
        with group(transport, cluster=ALONE):
            assert transport._starter is not None
            found = [transport._starter.pid(0), *workers()]
            assert len(found) >= 2
            for pid in found:
                for name in ("cmdline", "environ"):
                    assert secret.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_agents_that_do_not_join_are_named(bundle: Bundle) -> None:
    missed = pytest.raises(AgentsMissing)
    with waiting(bundle, 3) as (transport, port), agent(port, 1), missed as missing:
        assert wait_until(lambda: transport.is_ready(1), LONG_S)
        transport.join(0.1)
    assert str(missing.value) == (
        "of 3 agents ranks 0, 2 did not join within 0.1 s; did you start `python -m busbw agent`, "
        "or `python -m busbw run` by a launcher, on every host?"
    )


@pytest.mark.parametrize(
    ("count", "others"),
    [(2, "; of 2 agents rank 0 did not join within 0.3 s; did you start"), (1, "")],
)
def test_agents_that_joined_and_are_not_ready_are_named_by_host(
    bundle: Bundle, count: int, others: str
) -> None:
    with waiting(bundle, count) as (transport, port):
        place = Place(host=HOST, port=port, rank=count - 1, name="two")
        connection, _ = joined(place, SECRET, LONG_S)
        assert wait_until(lambda: transport.hub.peers, LONG_S)
        with contextlib.closing(connection), pytest.raises(AgentsMissing) as missing:
            transport.join(0.3)
    said = f"the agent on two (rank {count - 1}) joined, but did not say within 0.3 s that it has "
    assert str(missing.value).partition(" `")[0] == f"{said}the session's files{others}"


@pytest.mark.parametrize(
    ("count", "words"), sweep([(1, "1 connection did not"), (2, "2 connections did not")])
)
def test_connections_with_another_secret_are_counted(
    bundle: Bundle, count: int, words: str
) -> None:
    with waiting(bundle, 1) as (transport, port):
        for _ in range(count):
            with agent(port, 0, secret=b"another secret of tests") as one:
                assert ended(one)[0] == 1
        # What says nothing, and what is no agent, prove nothing and are not counted.
        with socket.create_connection((HOST, port)) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(AgentsMissing) as missing:
                transport.join(0.3)
    why = f"rank 0 did not join within 0.3 s; {words} prove that they know the secret"
    assert str(missing.value).endswith(why)


def test_connections_that_say_nothing_are_counted_and_named_by_address(bundle: Bundle) -> None:
    with waiting(bundle, 1) as (transport, port), contextlib.ExitStack() as held:
        for _ in range(3):
            held.enter_context(socket.create_connection((HOST, port)))
        # One that has gone again is counted, too.
        socket.create_connection((HOST, port)).close()
        with pytest.raises(AgentsMissing) as missing:
            transport.join(0.5)
    why = "within 0.5 s; 4 connections from 127.0.0.1 said nothing or broke off; did you start"
    assert why in str(missing.value)


def test_an_agent_that_joined_and_broke_off_is_said_to_have_done_that(bundle: Bundle) -> None:
    """At once: nobody can take its place."""
    with waiting(bundle, 2) as (transport, port), agent(port, 1, host="two") as one:
        assert wait_until(lambda: transport.is_ready(1), LONG_S)
        one.kill()
        with pytest.raises(AgentGone) as gone:
            transport.join(LONG_S)
    assert str(gone.value).startswith("the agent on two (rank 1) is gone: ")


def test_a_host_with_another_python_cannot_be_compared(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.python_version", lambda: "3.10.99")
    differs = pytest.raises(IncomparableHosts)
    with waiting(bundle, 1) as (transport, port), agent(port, 0, host="old"), differs as differ:
        transport.join(LONG_S)
    found = ".".join(map(str, sys.version_info[:3]))
    assert str(differ.value) == f"old (rank 0) has Python {found}, this session 3.10.99"


def test_a_local_agent_that_cannot_start_says_why(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busbw.hosts.remote.FIRST", "import sys; sys.exit('no disk')")
    missing = pytest.raises(AgentsMissing, match=r"not start on this host \(rank 0\): no disk")
    with contextlib.closing(of_this_host(bundle, SECRET, 1)) as transport, missing:
        transport.join(LONG_S)


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


@pytest.mark.exhaustive
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

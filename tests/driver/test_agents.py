"""Groups whose processes agents start: the same answers, and no agent or worker left."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.driver.agent_worker import AgentWorker
from busbw.driver.agents import AgentsError
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, probe, trained
from busbw.driver.group import Group
from busbw.driver.transport import Request, Starter
from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.machine import Probe
from busbw.model.training import ALONE, Cluster, Net, TrainingAnswer
from busbw.model.words import Capability, FailureKind
from tests import build
from tests.agent.agents import HOST, LONG_S
from tests.sweep import sweep

from .agent_groups import CLUSTER, LAUNCH, failure, group, local, of_this_host, remote, workers
from .dying import interpreter
from .processes import state, wait_until
from .scripts import KEY, measure, starter

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_one_by_itself_measures_as_without_an_agent(bundle: Bundle) -> None:
    with local(bundle, 1) as transport, group(transport, cluster=ALONE) as alone:
        run = alone.ask(measure(), LONG_S, "measuring")
        assert isinstance(run, Run)
        assert run.launch == LAUNCH
        assert alone.close()


def test_the_members_of_a_group_are_spread_over_agents_in_order(bundle: Bundle) -> None:
    with remote(bundle, "one", "two") as (transport, _):
        assert transport.hosts() == ("one", "two")
        found = transport.cluster_members(CLUSTER)
        assert [member.role.name for member in found] == [f"worker {i}" for i in range(4)]
        assert {member.hosts for member in found} == {2}
        addresses = found[0].addresses["worker"]
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


def test_training_has_its_tasks_on_agents_too(bundle: Bundle) -> None:
    begin = Starter(
        python=sys.executable, framework="fake", capability=Capability.TRAIN, device="cpu"
    )
    request = build.training_request(Net.PERCEPTRON, ranks=2, servers=1)
    with local(bundle, 1) as transport:
        answers = trained(Executor(transport), begin, LaunchId.parse("1"), request, LONG_S)
        assert not isinstance(answers, Failure)
        assert [type(answer) for answer in answers] == [TrainingAnswer] * 2


def test_processes_that_cannot_be_shared_equally_are_refused(bundle: Bundle) -> None:
    with (
        local(bundle) as transport,
        pytest.raises(AgentsError, match="3 processes cannot be shared equally by 2 agents"),
    ):
        Group(transport, starter(), LAUNCH, Cluster(counts={"worker": 3}))


@pytest.mark.exhaustive
def test_hosts_with_different_numbers_of_agents_are_refused(bundle: Bundle) -> None:
    for hosts in (("one", "two", "two"), ("one", "two", "one")):
        with remote(bundle, *hosts) as (transport, _), pytest.raises(AgentsError) as refused:
            transport.cluster_members(Cluster(counts={"worker": 3}))
        assert f"the agents are on {', '.join(hosts)}, by rank" in str(refused.value)


@pytest.mark.parametrize(
    ("then", "kind", "message"),
    sweep(
        [
            ("kill", FailureKind.KILLED, "the worker was killed (SIGKILL) while measuring"),
            ("exit", FailureKind.CRASHED, "the worker ended with exit code 3 while measuring"),
            ("segfault", FailureKind.CRASHED, "the worker died of SIGSEGV while measuring"),
        ]
    ),
)
def test_a_worker_that_ends_is_told_apart_as_without_an_agent(
    bundle: Bundle, then: str, kind: FailureKind, message: str
) -> None:
    begin = starter(cases=[{"then": then}])
    with local(bundle, 1) as transport, group(transport, begin, ALONE) as alone:
        found = failure(alone.ask(measure(), LONG_S, "measuring"))
    assert (found.kind, found.message) == (kind, message)
    assert f"the script says {then}" in found.log


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
    assert found.message == "the worker ended with exit code 127 while starting"
    assert found.last_line == "/no/such/python: No such file or directory"


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
    with local(bundle) as transport, group(transport, begin, Cluster(counts={"worker": 2})) as pair:
        asked = Request("measure", {**measure().values, "key": replace(KEY, processes=2)})
        os.kill(max(workers()), signal.SIGSTOP)
        found = failure(pair.ask(asked, 1.0, "measuring"))
    assert found.kind is FailureKind.TIMEOUT
    assert "as a signal has stopped it, while measuring" in found.message


def test_no_command_line_and_no_environment_has_the_secret(bundle: Bundle) -> None:
    secret = secrets.token_hex(32)
    transport = of_this_host(bundle, secret.encode(), 1)
    try:
        transport.join(LONG_S)
        with group(transport, cluster=ALONE):
            assert transport._starter is not None
            found = [transport._starter.pid(0), *workers()]
            assert len(found) >= 2
            for pid in found:
                for name in ("cmdline", "environ"):
                    assert secret.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    finally:
        transport.close()

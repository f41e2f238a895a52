"""Agents at the other ends of ssh: what they are given, and that none outlives its session."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from busbw import locks
from busbw.driver.bundle import Bundle
from busbw.driver.group import Group
from busbw.driver.transport import AgentGone, AgentsMissing
from busbw.hosts import remote
from busbw.hosts.agents import AgentsTransport
from busbw.hosts.starters import AgentStarter, SshHosts, command_of
from busbw.model.cluster import ALONE
from busbw.model.launch import Run
from tests.helpers import ssh
from tests.helpers.agents import LONG_S, lock_of, machine_of
from tests.helpers.sweep import sweep
from tests.helpers.workers import measure, processes, starter, state, wait_until
from tests.unit.hosts.agent_groups import CLUSTER, LAUNCH, group, workers

pytestmark = pytest.mark.workers

SECRET = b"a secret that no command line has"


@pytest.fixture(autouse=True)
def instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The program in the place of ssh; no process and no descriptor is left."""
    folder = ssh.written(tmp_path / "programs")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    yield folder
    assert wait_until(lambda: not processes(tmp_path), 10)
    assert len(os.listdir("/proc/self/fd")) == before


@contextmanager
def through_ssh(
    bundle: Bundle,
    *hosts: str,
    python: str = "",
    environment: dict[str, str] | None = None,
    grace_s: float = LONG_S,
) -> Iterator[tuple[AgentsTransport, AgentStarter]]:
    """A session with an agent on each of these hosts."""
    asked = SshHosts(
        hosts=hosts, python=python or ssh.python(), environment=environment or {}, connect_s=7
    )
    agents = AgentStarter(bundle, SECRET, asked, exit_grace_s=grace_s)
    found = AgentsTransport(bundle, None, SECRET, len(hosts), starter=agents)
    try:
        found.join(LONG_S)
        yield found, agents
    finally:
        found.close()


def test_members_on_hosts_that_ssh_reaches_measure_together(bundle: Bundle, instead: Path) -> None:
    with through_ssh(bundle, "one", "two") as (transport, _):
        assert [transport.hub.peers[rank].host for rank in (0, 1)] == ["one", "two"]
        assert {member.hosts for member in transport.cluster_members(CLUSTER)} == {2}
        with group(transport) as running:
            assert {one.host for one in running.members.values()} == {"one", "two"}
            assert running.close()
    assert "-T -a -x -o BatchMode=yes -o ConnectTimeout=7 -- one exec " in ssh.called(instead)


def test_an_agent_that_is_killed_is_started_again_through_ssh(bundle: Bundle) -> None:
    with through_ssh(bundle, "one") as (transport, agents):
        os.kill(agents.pid(0), signal.SIGKILL)
        assert wait_until(lambda: not transport.is_ready(0))
        with group(transport, cluster=ALONE) as alone:
            assert isinstance(alone.ask(measure(), LONG_S, "measuring"), Run)


def test_a_host_that_the_agent_before_still_locks_is_gone_and_its_lock_named(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is stopped holds its lock; who holds it here is this process.
    monkeypatch.setattr("busbw.hosts.agents._AGAIN_S", 1.0)
    with through_ssh(bundle, "one") as (transport, agents):
        transport.lock(5)
        os.kill(agents.pid(0), signal.SIGKILL)
        assert wait_until(lambda: not transport.is_ready(0))
        gone = pytest.raises(AgentGone)
        with lock_of("one", 5), gone as why, group(transport, cluster=ALONE):
            pass
    assert re.fullmatch(
        r"the agent on one \(rank 0\) is gone: it was closed; the next one cannot lock its host "
        rf"for 1 s, which pid {os.getpid()}, started [\d: -]+ holds",
        str(why.value),
    ), why.value


_HOLD = """
import sys, time
from busbw import locks
with locks.machine(5):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_host_that_is_stopped_with_its_lock_is_gone_without_waiting_for_it(
    bundle: Bundle,
) -> None:
    with through_ssh(bundle, "one") as (transport, agents):
        transport.lock(5)
        os.kill(agents.pid(0), signal.SIGKILL)
        assert wait_until(lambda: not transport.is_ready(0))
        command = [sys.executable, "-c", _HOLD]
        environment = {**os.environ, locks.MACHINE: machine_of("one")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as before:
            assert before.stdout is not None
            before.stdout.readline()
            before.send_signal(signal.SIGSTOP)
            assert wait_until(lambda: state(before.pid) == "T")
            with pytest.raises(AgentGone) as why, group(transport, cluster=ALONE):
                pass
            before.kill()
    assert re.fullmatch(
        r"the agent on one \(rank 0\) is gone: it was closed; the next one cannot lock its host, "
        rf"which pid {before.pid}, started [\d: -]+, stopped by a signal, holds",
        str(why.value),
    ), why.value


@pytest.mark.exhaustive
def test_a_stopped_agent_is_ended_with_its_session(bundle: Bundle) -> None:
    with through_ssh(bundle, "one", grace_s=0.2) as (_, agents):
        os.kill(agents.pid(0), signal.SIGSTOP)
        assert wait_until(lambda: state(agents.pid(0)) == "T")


@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        (
            ("one", ssh.UNREACHED),
            "unreached (rank 1): ssh: connect to host unreached port 22: No route to host",
        ),
        ((ssh.BROKEN,), "broken (rank 0): sh: 1: exec: python-that-is-not-there: not found"),
        (
            ("one", "two", ssh.HIDDEN),
            "hidden (rank 2): busbw agent: sshd does not say this host's address (SSH_CONNECTION "
            "is 'UNKNOWN 65535 UNKNOWN 65535'); other hosts could not connect to it",
        ),
    ],
)
def test_a_host_without_an_agent_is_named_with_the_reason(
    bundle: Bundle, hosts: tuple[str, ...], why: str
) -> None:
    with pytest.raises(AgentsMissing) as missing, through_ssh(bundle, *hosts):
        pass
    assert str(missing.value) == f"an agent did not start on {why}"


def test_a_program_that_is_no_python_says_so(bundle: Bundle) -> None:
    missing = pytest.raises(AgentsMissing, match=r"one \(rank 0\): ")
    with missing, through_ssh(bundle, "one", python="/bin/cat"):
        pass


def test_a_host_that_says_nothing_is_named_with_how_long_it_was_waited_for(bundle: Bundle) -> None:
    asked = SshHosts(hosts=("one",), python="sleep 100 #")
    agents = AgentStarter(bundle, SECRET, asked, exit_grace_s=0.2)
    transport = AgentsTransport(bundle, None, SECRET, 1, starter=agents)
    try:
        with pytest.raises(AgentsMissing) as missing:
            transport.join(0.5)
    finally:
        transport.close()
    assert str(missing.value) == (
        "an agent did not start on one (rank 0): it says nothing; it was waited for 0.5 s"
    )


@pytest.mark.parametrize(
    ("program", "end"),
    [
        ("kill -KILL $$", "killed by SIGKILL, without a word"),
        ("exit 3", "ended with exit status 3, without a word"),
    ],
)
def test_an_ssh_that_ends_without_a_word_is_named_with_how_it_ended(
    bundle: Bundle, instead: Path, program: str, end: str
) -> None:
    (instead / "ssh").write_text(f"#!/bin/sh\n{program}\n")
    with pytest.raises(AgentsMissing) as missing, through_ssh(bundle, "one"):
        pass
    assert str(missing.value) == f"an agent did not start on one (rank 0): {end}"


@pytest.mark.parametrize("mode", [None, 0o644])
def test_an_ssh_that_cannot_be_started_is_named_with_the_reason(
    bundle: Bundle, instead: Path, monkeypatch: pytest.MonkeyPatch, mode: int | None
) -> None:
    monkeypatch.setenv("PATH", str(instead))
    if mode is None:
        (instead / "ssh").unlink()
    else:
        (instead / "ssh").chmod(mode)
    with pytest.raises(AgentsMissing) as missing, through_ssh(bundle, "one", "two"):
        pass
    why = "No such file or directory" if mode is None else "Permission denied"
    where = "an agent did not start on one (rank 0): "
    assert str(missing.value) == f"{where}ssh cannot be started: {why}"


@pytest.mark.parametrize("end", sweep(["exec <&-; wait", "exit 3"]))
def test_what_an_ssh_has_started_ends_with_its_session(
    bundle: Bundle, instead: Path, end: str
) -> None:
    """Whether it runs until it is ended, or was over before."""
    child = instead / "child"
    (instead / "ssh").write_text(f'#!/bin/sh\nsleep 600 &\necho $! > "{child}"\n{end}\n')
    asked = SshHosts(hosts=("one",))
    agents = AgentStarter(bundle, SECRET, asked, exit_grace_s=0.2)
    transport = AgentsTransport(bundle, None, SECRET, 1, starter=agents)
    with contextlib.closing(transport), pytest.raises(AgentsMissing):
        transport.join(2)
    assert wait_until(lambda: state(int(child.read_text())) in ("", "Z"), 5)


def first(instead: Path, command: str) -> None:
    """Have the program run this before it does what it did."""
    program = instead / "ssh"
    program.rename(instead / "ssh.real")
    program.write_text(f'#!/bin/sh\n{command}\nexec "$0.real" "$@"\n')
    program.chmod(0o755)


@pytest.mark.parametrize("end", ["kill -KILL $$", "exit 255"])
def test_an_agent_that_ends_before_it_joins_is_started_again(
    bundle: Bundle, instead: Path, end: str
) -> None:
    first(instead, f'if [ ! -e "$0.once" ]; then touch "$0.once"; {end}; fi')
    with through_ssh(bundle, "one") as (transport, _), group(transport, cluster=ALONE) as alone:
        assert isinstance(alone.ask(measure(), LONG_S, "measuring"), Run)


def test_an_agent_that_is_killed_while_others_join_is_started_again(
    bundle: Bundle, instead: Path
) -> None:
    again = instead / "again"
    wait = f"until [ -e {again} ]; do sleep 0.05; done"
    first(instead, f'case "$*" in *"-- two "*) {wait};; esac')
    agents = AgentStarter(bundle, SECRET, SshHosts(hosts=("two", "one"), python=ssh.python()))
    transport = AgentsTransport(bundle, None, SECRET, 2, starter=agents)

    def kill() -> None:
        assert wait_until(lambda: transport.is_ready(1), LONG_S)
        os.kill(agents.pid(1), signal.SIGKILL)
        assert wait_until(lambda: not transport.is_ready(1), LONG_S)
        assert wait_until(lambda: transport.is_ready(1), LONG_S)
        again.touch()

    with contextlib.closing(transport), ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        transport.join(LONG_S)
        killing.result()
        with group(transport) as running:
            assert running.close()


def test_a_worker_gets_the_variables_that_its_host_was_given_and_no_secret(bundle: Bundle) -> None:
    given = {"XLA_FLAGS": "--xla_of_the_session=1"}
    session = through_ssh(bundle, "one", environment=given)
    with session as (transport, agents), group(transport, cluster=ALONE):
        (worker,) = workers()
        environment = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
        assert b"XLA_FLAGS=--xla_of_the_session=1" in environment
        for pid in (worker, agents.pid(0)):
            for name in ("cmdline", "environ"):
                assert SECRET not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_an_agent_that_cannot_be_started_again_is_gone(bundle: Bundle, instead: Path) -> None:
    with through_ssh(bundle, "one") as (transport, agents):
        (instead / "ssh").write_text("#!/bin/sh\necho 'ssh: no route any more' >&2; exit 255\n")
        os.kill(agents.pid(0), signal.SIGKILL)
        assert wait_until(lambda: not transport.is_ready(0))
        with pytest.raises(AgentGone, match=r"on one \(rank 0\): ssh: no route any more"):
            Group(transport, starter(), LAUNCH, ALONE)


def test_an_ssh_that_is_gone_when_an_agent_is_started_again_ends_that_one_for_good(
    bundle: Bundle, instead: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with through_ssh(bundle, "one") as (transport, agents):
        monkeypatch.setenv("PATH", str(instead / "none"))
        os.kill(agents.pid(0), signal.SIGKILL)
        assert wait_until(lambda: not transport.is_ready(0))
        with pytest.raises(AgentGone, match=r"on one \(rank 0\): ssh cannot be started: No such "):
            Group(transport, starter(), LAUNCH, ALONE)


def test_a_host_is_never_taken_for_an_option_of_ssh() -> None:
    command = command_of(SshHosts(hosts=("one",)), "-oProxyCommand=touch /tmp/there")
    assert command[command.index("--") + 1 :][0] == "-oProxyCommand=touch /tmp/there"
    assert remote.FIRST in command[-1]

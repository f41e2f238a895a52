"""Agents that join a session, and why those that must not or cannot do not."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys

import pytest

from busbw.driver.agents import (
    AgentGone,
    AgentsError,
    AgentsMissing,
    AgentsTransport,
    IncomparableHosts,
)
from busbw.driver.bundle import Bundle
from tests.agent import attack
from tests.agent.agents import HOST, LONG_S, SECRET, agent, ended, listening
from tests.sweep import sweep

from .agent_groups import of_this_host
from .processes import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_agents_that_do_not_join_are_named(bundle: Bundle) -> None:
    port = listening()
    transport = AgentsTransport(bundle, port, SECRET, 3)
    try:
        with agent(port.getsockname()[1], 1), pytest.raises(AgentsMissing) as missing:
            assert wait_until(lambda: transport.is_ready(1), LONG_S)
            transport.join(0.1)
    finally:
        transport.close()
    assert str(missing.value) == (
        "of 3 agents ranks 0, 2 did not join within 0.1 s; did you start `python -m busbw agent`, "
        "or `python -m busbw run` by a launcher, on every host?"
    )


@pytest.mark.parametrize(
    ("count", "words"), sweep([(1, "1 connection did not"), (2, "2 connections did not")])
)
def test_connections_with_another_secret_are_counted(
    bundle: Bundle, count: int, words: str
) -> None:
    port = listening()
    transport = AgentsTransport(bundle, port, SECRET, 1)
    number = port.getsockname()[1]
    try:
        for _ in range(count):
            with agent(number, 0, secret=b"another secret of tests") as one:
                assert ended(one)[0] == 1
        # What says nothing, and what is no agent, prove nothing and are not counted.
        with socket.create_connection((HOST, number)) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(AgentsMissing) as missing:
                transport.join(0.3)
    finally:
        transport.close()
    why = f"rank 0 did not join within 0.3 s; {words} prove that they know the secret"
    assert str(missing.value).endswith(why)


def test_connections_that_say_nothing_are_counted_and_named_by_address(bundle: Bundle) -> None:
    port = listening()
    transport = AgentsTransport(bundle, port, SECRET, 1)
    try:
        with contextlib.ExitStack() as held:
            for _ in range(3):
                held.enter_context(socket.create_connection(port.getsockname()))
            # One that has gone again is counted, too.
            socket.create_connection(port.getsockname()).close()
            with pytest.raises(AgentsMissing) as missing:
                transport.join(0.5)
    finally:
        transport.close()
    why = "within 0.5 s; 4 connections from 127.0.0.1 said nothing or broke off; did you start"
    assert why in str(missing.value)


def test_200_silent_connections_that_come_again_keep_no_agent_out(bundle: Bundle) -> None:
    port = listening()
    number = port.getsockname()[1]
    transport = AgentsTransport(bundle, port, SECRET, 1)
    command = [sys.executable, attack.__file__, "again", str(number)]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as crowd:
            assert crowd.stdin is not None and crowd.stdout is not None
            crowd.stdout.readline()
            with agent(number):
                transport.join(LONG_S)
            crowd.stdin.close()
    finally:
        transport.close()


def test_an_agent_that_joined_and_broke_off_is_said_to_have_done_that(bundle: Bundle) -> None:
    """At once: nobody can take its place."""
    port = listening()
    transport = AgentsTransport(bundle, port, SECRET, 2)
    try:
        with agent(port.getsockname()[1], 1, host="two") as one:
            assert wait_until(lambda: transport.is_ready(1), LONG_S)
            one.kill()
            with pytest.raises(AgentGone) as gone:
                transport.join(LONG_S)
    finally:
        transport.close()
    assert str(gone.value).startswith("the agent on two (rank 1) is gone: ")


def test_a_host_with_another_python_cannot_be_compared(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.python_version", lambda: "3.10.99")
    port = listening()
    transport = AgentsTransport(bundle, port, SECRET, 1)
    try:
        number = port.getsockname()[1]
        with agent(number, 0, host="old"), pytest.raises(IncomparableHosts) as differ:
            transport.join(LONG_S)
    finally:
        transport.close()
    found = ".".join(map(str, sys.version_info[:3]))
    assert str(differ.value) == f"old (rank 0) has Python {found}, this session 3.10.99"


def test_two_names_of_one_machine_are_refused(bundle: Bundle) -> None:
    port = listening()
    transport = AgentsTransport(bundle, port, SECRET, 3)
    number = port.getsockname()[1]
    try:
        with (
            agent(number, 0, "--host-name=one"),
            agent(number, 1, host="two"),
            agent(number, 2, "--host-name=again"),
            pytest.raises(AgentsError) as refused,
        ):
            transport.join(LONG_S)
    finally:
        transport.close()
    assert str(refused.value) == (
        "one (rank 0) and again (rank 2) are the same machine, which would count as two hosts; "
        "accepted is one name for each host"
    )


def test_a_local_agent_that_cannot_start_says_why(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busbw.driver.agent_starters._PROGRAM", "import sys; sys.exit('no disk')")
    transport = of_this_host(bundle, SECRET, 1)
    try:
        with pytest.raises(AgentsMissing, match=r"did not start on this host \(rank 0\): no disk"):
            transport.join(LONG_S)
    finally:
        transport.close()

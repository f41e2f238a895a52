"""The port that agents connect to: whatever strangers send there, nothing changes.

Each test attacks a session of one agent, which must start a worker afterwards as before.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.group import Group
from busbw.hosts.agents import AgentsTransport
from busbw.hosts.connection import Connection, Direction, Key, Lost, fresh_nonce, key_of
from busbw.hosts.handshake import JoinError, Place, joined
from busbw.hosts.hub import MOST_UNPROVEN, Hub, Timing
from busbw.hosts.messages import Message, ToSession
from busbw.model.launch import LaunchId
from tests.helpers.agents import (
    HOST,
    LONG_S,
    SECRET,
    agent,
    hello_of,
    listening,
    proof_frame,
    say_join,
)
from tests.helpers.workers import starter, wait_until
from tests.unit.hosts import attack

pytestmark = pytest.mark.workers

MOST_GROWTH_BYTES = 200 * 2**20
SHORT_S = 1.0


class Attacked:
    """A session with an agent of rank 0 of two, and its port."""

    def __init__(self, transport: AgentsTransport, port: int) -> None:
        self.transport = transport
        self.port = port

    def connected(self) -> socket.socket:
        return socket.create_connection((HOST, self.port), timeout=LONG_S)

    def place(self, rank: int = 1) -> Place:
        return Place(host=HOST, port=self.port, rank=rank, name="unknown")

    def answers(self) -> bool:
        """Whether the agent that has joined starts workers, and no other agent is known."""
        assert list(self.transport.hub.peers) == [0]
        group = Group(self.transport, starter(), LaunchId.parse("1"))
        try:
            return group.begin(LONG_S) is None and group.close()
        finally:
            group.kill()


def resident_bytes() -> int:
    """What this process, which listens, has in memory."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """One for all tests here: what one attack does would be seen by the next."""
    found = Bundle()
    port = listening()
    number = port.getsockname()[1]
    timing = Timing(handshake_s=SHORT_S)
    transport = AgentsTransport(found, port, SECRET, 2, timing=timing)
    try:
        with agent(number):
            assert wait_until(lambda: transport.is_ready(0), LONG_S)
            yield Attacked(transport, number)
    finally:
        transport.close()
        found.remove()


@pytest.fixture(autouse=True)
def nothing_changes(session: Attacked) -> Iterator[None]:
    """The agent works as before, and memory has not grown."""
    before = resident_bytes()
    threads = threading.active_count()
    yield
    assert resident_bytes() - before < MOST_GROWTH_BYTES
    assert wait_until(lambda: not session.transport.hub.pending, 10)
    assert wait_until(lambda: threading.active_count() <= threads, 10)
    assert session.answers()


def rest(sock: socket.socket) -> bytes:
    """All that comes until the session closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while read := sock.recv(65536):
            found += read
    return found


def test_a_wrong_secret_is_refused(session: Attacked) -> None:
    with pytest.raises(JoinError) as refused:
        joined(session.place(), b"another secret of tests", 5)
    assert "does not have the same secret, or is over (it was closed)" in str(refused.value)


def test_a_rank_joins_once(session: Attacked) -> None:
    with pytest.raises(JoinError, match="refused this host: rank 0 has joined already"):
        joined(session.place(rank=0), SECRET, 5)


def test_one_that_is_gone_before_it_is_refused_opens_no_rank(
    session: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = session.transport.hub
    answer = hub._answer

    def answered(connection: Connection, refused: str) -> None:
        if refused:
            raise Lost("it was closed")
        answer(connection, refused)

    with monkeypatch.context() as patch, pytest.raises(JoinError, match="or is over"):
        patch.setattr(hub, "_answer", answered)
        joined(session.place(rank=0), SECRET, 5)
    with pytest.raises(JoinError, match="refused this host: rank 0 has joined already"):
        joined(session.place(rank=0), SECRET, 5)


def test_a_rank_that_there_is_not_is_refused(session: Attacked) -> None:
    with pytest.raises(JoinError, match="there is no rank 2 among 2 agents"):
        joined(session.place(rank=2), SECRET, 5)


def unknown(what: str, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, attack.__file__, what, str(port)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_10000_random_byte_strings(session: Attacked) -> None:
    with unknown("random", session.port) as process:
        assert process.wait() == 0


def test_a_frame_of_a_gigabyte_is_refused_before_it_is_read(session: Attacked) -> None:
    with session.connected() as sock:
        hello_of(sock)
        sock.sendall(struct.pack(">I", 2**30) + bytes(32))
        block = bytes(2**20)
        with pytest.raises(OSError, match=r"Broken pipe|reset by peer"):
            for _ in range(1024):
                sock.sendall(block)


def test_a_replayed_proof_is_refused(session: Attacked) -> None:
    """What an agent said on one connection is nothing on another one, which has another nonce."""
    with session.connected() as first:
        _, hello = hello_of(first)
        sent = proof_frame(SECRET, bytes.fromhex(hello.nonce), fresh_nonce())
    for _ in range(3):
        with session.connected() as sock:
            hello_of(sock)
            sock.sendall(sent)
            assert rest(sock) == b""


def test_a_reflected_frame_is_refused(session: Attacked) -> None:
    with session.connected() as sock:
        sent, _ = hello_of(sock)
        sock.sendall(sent)
        assert rest(sock) == b""


def test_the_session_s_own_nonce_and_proof_prove_nothing(session: Attacked) -> None:
    """A second connection cannot be had to make the proof that the first one asks for."""
    with session.connected() as sock, session.connected() as other:
        _, hello = hello_of(sock)
        _, of_other = hello_of(other)
        nonce = bytes.fromhex(of_other.nonce)
        sock.sendall(proof_frame(b"a guess of tests", bytes.fromhex(hello.nonce), nonce))
        assert rest(sock) == b""


@contextlib.contextmanager
def socket_of(connection: Connection) -> Iterator[socket.socket]:
    """The socket below a connection, which waits; both are closed at the end."""
    with contextlib.closing(connection), socket.socket(fileno=os.dup(connection.fileno())) as sock:
        sock.settimeout(LONG_S)
        yield sock


def test_a_frame_that_is_replayed_after_joining_ends_that_agent_alone(session: Attacked) -> None:
    connection, _ = joined(session.place(), SECRET, 5)
    sent = connection._sends.sealed(Message(ToSession.ALIVE).body)
    with socket_of(connection) as sock:
        sock.sendall(sent + sent)
        rest(sock)
    assert "frame 3 was not made with the secret" in gone(session)


def test_what_the_session_says_sent_back_to_it_ends_that_agent_alone(session: Attacked) -> None:
    connection, _ = joined(session.place(), SECRET, 5)
    frame = connection.received(time.monotonic() + LONG_S)
    with socket_of(connection) as sock:
        sock.sendall(struct.pack(">I", len(frame.body)) + frame.proof + frame.body)
        rest(sock)
    assert "frame 2 was not made with the secret" in gone(session)


def test_a_word_of_a_worker_that_was_never_asked_for_ends_that_agent_alone(
    session: Attacked,
) -> None:
    connection, _ = joined(session.place(), SECRET, 5)
    with socket_of(connection) as sock:
        connection.send(Message(ToSession.OUTPUT, b"{}", 7).body)
        rest(sock)
    why = "output: expected one of the 0 workers that it was asked for, got 7"
    assert gone(session).endswith(why)


def gone(session: Attacked) -> str:
    """How the agent of rank 1 is gone; it may join again."""
    hub = session.transport.hub
    assert wait_until(lambda: hub.peers[1].why_lost != "", 10)
    hub.expect_again(1)
    return hub.peers.pop(1).why_lost


def test_a_peer_that_sends_nothing_is_closed(session: Attacked) -> None:
    with session.connected() as sock:
        hello_of(sock)
        assert rest(sock) == b""


def test_a_peer_that_sends_a_byte_now_and_then_is_closed(session: Attacked) -> None:
    with session.connected() as sock:
        hello_of(sock)
        sock.settimeout(0.05)
        sent = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 1000:
                sock.sendall(b"\0" if sent < 3 else b"x")
                sent += 1
                with contextlib.suppress(TimeoutError):
                    if not sock.recv(1):
                        break
        assert sent < 1000


def test_1000_connections_at_once(session: Attacked) -> None:
    with unknown("crowd", session.port) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        assert len(session.transport.hub.pending) <= MOST_UNPROVEN
        # The agent works meanwhile.
        assert session.answers()
        process.stdin.close()
        assert process.wait() == 0


def test_an_agent_of_another_python_is_named_with_both_versions(session: Attacked) -> None:
    with session.connected() as sock:
        say_join(sock)
        assert b"unknown (rank 0) has Python 3, this session" in rest(sock)
    (words,) = session.transport.hub.incomparable
    session.transport.hub.incomparable.clear()
    assert words.startswith("unknown (rank 0) has Python 3, this session 3.")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            '"protocol": 99, "host": "new", "rank": 1, "more": 1',
            "new (rank 1) has the protocol of agents 99, this session 5",
        ),
        (
            r'"protocol": "4\u001b[1m", "host": "\u009b1m\ud800", "rank": "\u001b[1m"',
            r"\x9b1m\ud800 (rank \x1b[1m) has the protocol of agents 4\x1b[1m, this session 5",
        ),
    ],
)
def test_an_agent_of_another_protocol_is_named_whatever_else_it_says(
    session: Attacked, body: str, said: str
) -> None:
    with session.connected() as sock:
        _, hello = hello_of(sock)
        nonce = fresh_nonce()
        key = key_of(SECRET, Direction.TO_SESSION, bytes.fromhex(hello.nonce), nonce)
        sock.sendall(Key(key).sealed(f'{{"nonce": "{nonce.hex()}", {body}}}'.encode()))
        assert json.dumps(said).encode() in rest(sock)
    assert session.transport.hub.incomparable == [said]
    session.transport.hub.incomparable.clear()


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "{}",
        "1",
        '{"nonce": 1}',
        '{"nonce": "zz"}',
        '{"nonce": "00"}',
        "[" * 900,
        '{"protocol": 3}',
    ],
)
def test_a_proof_that_says_nothing_useful_is_closed(session: Attacked, body: str) -> None:
    with session.connected() as sock:
        _, hello = hello_of(sock)
        nonce = fresh_nonce()
        key = key_of(SECRET, Direction.TO_SESSION, bytes.fromhex(hello.nonce), nonce)
        sock.sendall(Key(key).sealed(body.encode()))
        assert rest(sock) == b""


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "{}",
        "[" * 900,
        '{"python": "PYTHON"}',
        '{"python": "PYTHON", "host": "h", "rank": "1"}',
        '{"protocol": 3, "python": "PYTHON", "host": "h", "rank": 1}',
    ],
)
def test_a_join_that_says_nothing_useful_is_closed(session: Attacked, body: str) -> None:
    with session.connected() as sock:
        say_join(sock, body.replace("PYTHON", platform.python_version()).encode())
        assert rest(sock) == b""


@pytest.mark.exhaustive
def test_connections_that_say_nothing_and_come_again_keep_no_agent_out(session: Attacked) -> None:
    with unknown("again", session.port) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        connection, _ = joined(session.place(), SECRET, LONG_S)
        process.stdin.close()
        assert process.wait() == 0
    assert session.transport.hub.silent()[HOST] >= MOST_UNPROVEN
    connection.close()
    assert gone(session)


def test_in_a_crowd_those_go_that_have_said_nothing_for_longest() -> None:
    """And not only after the time that a proof may take where there is room."""
    with listening() as port, contextlib.ExitStack() as held:
        hub = Hub(port, SECRET, {}, ranks=1)
        held.callback(hub.close, 0.0)
        address = HOST, port.getsockname()[1]
        for _ in range(MOST_UNPROVEN):
            held.enter_context(socket.create_connection(address, timeout=LONG_S))
        assert wait_until(lambda: len(hub.pending) == MOST_UNPROVEN, 10)
        # Longer than they may be silent in a crowd.
        time.sleep(1.2)
        begun_s = time.monotonic()
        place = Place(host=HOST, port=address[1], rank=0, name="late")
        held.enter_context(contextlib.closing(joined(place, SECRET, LONG_S)[0]))
        assert time.monotonic() - begun_s < Timing().handshake_s / 2

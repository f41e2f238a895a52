"""Joining a session: addresses, the secret, and how both prove that they know it."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from busbw.hosts import handshake, messages
from busbw.hosts.connection import Connection, Direction, fresh_nonce
from busbw.hosts.handshake import (
    JoinError,
    Place,
    SecretError,
    SessionOver,
    address_of,
    address_text,
    is_any,
    is_loopback,
    joined,
    number_of,
    secret_of,
    split_address,
)
from tests.helpers.agents import HOST, SECRET, listening

OTHER = b"another secret of tests"


@contextmanager
def served(serve: Callable[[socket.socket], None]) -> Iterator[Place]:
    """Where something listens that does this with every connection."""
    with listening() as port:
        over = threading.Event()

        def run() -> None:
            while not over.is_set():
                sock, _ = port.accept()
                with sock:
                    if not over.is_set():
                        serve(sock)

        thread = threading.Thread(target=run)
        thread.start()
        number = port.getsockname()[1]
        try:
            yield Place(host=HOST, port=number, rank=0, name="here")
        finally:
            over.set()
            socket.create_connection((HOST, number)).close()
            thread.join()


def say(connection: Connection, value: object) -> None:
    connection.send(messages.encoded(value))


def hello(sock: socket.socket) -> tuple[Connection, bytes]:
    """Begin as a session does."""
    connection, nonce = Connection(sock), fresh_nonce()
    say(connection, messages.Hello(protocol=messages.PROTOCOL, nonce=nonce.hex()))
    sock.setblocking(True)
    return connection, nonce


def test_a_session_that_is_not_there_is_waited_for_and_named() -> None:
    with listening() as port:
        number = port.getsockname()[1]
    place = Place(host=HOST, port=number, rank=0, name="here")
    with pytest.raises(JoinError) as refused:
        joined(place, SECRET, 0.3)
    why = f"no session at {HOST}:{number} within 0.3 s (Connection refused)"
    assert str(refused.value) == why


def test_one_that_has_no_room_now_is_asked_again() -> None:
    asked = []

    def full(sock: socket.socket) -> None:
        asked.append(sock)

    with served(full) as place, pytest.raises(JoinError, match=r"within 0\.5 s"):
        joined(place, SECRET, 0.5)
    assert len(asked) > 1


def test_one_that_ends_before_it_says_anything_is_over() -> None:
    port = listening()
    place = Place(host=HOST, port=port.getsockname()[1], rank=0, name="here")
    timer = threading.Timer(0.3, port.close)
    timer.start()
    with pytest.raises(SessionOver) as over:
        joined(place, SECRET, 30)
    timer.join()
    assert str(over.value) == f"the session at {place.address} is over"


def test_one_that_closes_a_connection_and_then_its_port_is_over() -> None:
    port = listening()
    place = Place(host=HOST, port=port.getsockname()[1], rank=0, name="here")

    def close() -> None:
        port.accept()[0].close()
        port.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(SessionOver):
        joined(place, SECRET, 30)
    thread.join()


def test_one_that_says_its_first_word_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.1)
    connections = []

    def welcome(sock: socket.socket) -> None:
        connections.append(sock)
        time.sleep(0.5)
        connection, nonce = hello(sock)
        connection.prove(SECRET, Direction.TO_AGENT, nonce, bytes.fromhex(_proof(sock).nonce))
        for _ in range(2):
            say(connection, messages.Welcome(protocol=messages.PROTOCOL))

    with served(welcome) as place:
        connection, _ = joined(place, SECRET, 30)
        connection.close()
    assert len(connections) == 1


@pytest.mark.parametrize("sent", [b"HTTP/1.1 400 Bad\r\n" * 9, b"\0\0\0\2" + b"x" * 60])
def test_what_is_no_session_is_said_to_be_none(sent: bytes) -> None:
    with served(lambda sock: sock.sendall(sent)) as place, pytest.raises(JoinError) as refused:
        joined(place, SECRET, 5)
    assert f"what listens at {place.address} is no session: " in str(refused.value)


def test_what_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.2)
    over = threading.Event()
    with served(lambda sock: print(over.wait(5))) as place:
        with pytest.raises(JoinError, match=r"within 0\.1 s \(it says nothing\)"):
            joined(place, SECRET, 0.1)
        over.set()


def test_a_session_that_falls_silent_is_not_said_to_have_another_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.2)
    over = threading.Event()

    def greet(sock: socket.socket) -> None:
        hello(sock)
        over.wait(5)

    with served(greet) as place:
        with pytest.raises(JoinError) as silent:
            joined(place, SECRET, 5)
        over.set()
    said = f"the session at {place.address} has said nothing for 0.2 s; is the network between "
    assert str(silent.value) == f"{said}them cut?"


def test_a_session_without_the_secret_is_not_believed() -> None:
    """It cannot check the agent's proof, and the agent refuses what it says then."""

    def pretend(sock: socket.socket) -> None:
        connection, nonce = hello(sock)
        agent = bytes.fromhex(_proof(sock).nonce)
        connection.prove(OTHER, Direction.TO_AGENT, nonce, agent)
        say(connection, messages.Welcome(protocol=messages.PROTOCOL))

    with served(pretend) as place, pytest.raises(JoinError) as refused:
        joined(place, SECRET, 5)
    assert "does not have the same secret, or is over (frame 0 was not" in str(refused.value)


def test_an_agent_says_nothing_of_its_host_to_what_does_not_prove_the_secret() -> None:
    sent: list[bytes] = []

    def listen(sock: socket.socket) -> None:
        connection, nonce = hello(sock)
        sent.append(sock.recv(65536))
        agent = messages.decoded(messages.Hello, sent[0][36:]).nonce
        connection.prove(OTHER, Direction.TO_AGENT, nonce, bytes.fromhex(agent))
        say(connection, messages.Welcome(protocol=messages.PROTOCOL))
        sent.append(sock.recv(65536))

    with served(listen) as place, pytest.raises(JoinError):
        joined(place, SECRET, 5)
    said, after = sent
    assert set(json.loads(said[36:])) == {"protocol", "nonce"}
    assert after == b""


def _proof(sock: socket.socket) -> messages.Hello:
    sent = sock.recv(4096)
    return messages.decoded(messages.Hello, sent[36:])


def test_its_own_proof_sent_back_to_it_proves_nothing() -> None:
    def reflect(sock: socket.socket) -> None:
        hello(sock)
        sock.sendall(sock.recv(4096))

    with served(reflect) as place, pytest.raises(JoinError, match="frame 0 was not made with"):
        joined(place, SECRET, 5)


def test_a_proof_that_two_agents_give_is_never_the_same() -> None:
    sent: list[bytes] = []

    def keep(sock: socket.socket) -> None:
        hello(sock)
        sent.append(sock.recv(4096))

    with served(keep) as place:
        for _ in range(2):
            with pytest.raises(JoinError):
                joined(place, SECRET, 5)
    assert sent[0][4:36] != sent[1][4:36]
    assert not [one for one in sent if SECRET in one]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            messages.Welcome(protocol=1, refused="rank 0 has joined"),
            "refused this host: rank 0 has",
        ),
        ({"protocol": 1, "more": 1}, "says no welcome: message.more: unknown key; "),
    ],
)
def test_what_the_session_says_instead_of_a_welcome_is_passed_on(message: object, why: str) -> None:
    def refuse(sock: socket.socket) -> None:
        connection, nonce = hello(sock)
        connection.prove(SECRET, Direction.TO_AGENT, nonce, bytes.fromhex(_proof(sock).nonce))
        say(connection, message)

    with served(refuse) as place, pytest.raises(JoinError, match=why):
        joined(place, SECRET, 5)


TEXT = "a secret of tests"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that its owner alone can read."""
    path = tmp_path / "secret"
    path.write_text(f"{TEXT}\n")
    path.chmod(0o600)
    return path


def test_a_file_comes_before_the_environment_which_comes_before_stdin(file: Path) -> None:
    stdin = io.StringIO("the secret of stdin\nmore\n")
    of_variable = "the secret of a variable"
    assert secret_of(file, {"BUSBW_SECRET": of_variable}, stdin) == TEXT.encode()
    assert secret_of(None, {"BUSBW_SECRET": of_variable}, stdin) == of_variable.encode()
    assert secret_of(None, {}, stdin) == b"the secret of stdin"


def test_it_is_taken_out_of_the_environment(file: Path) -> None:
    environment = {"BUSBW_SECRET": TEXT, "HOME": "/"}
    secret_of(file, environment)
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777])
def test_a_file_that_others_can_read_or_write_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(SecretError) as refused:
        secret_of(file, {})
    assert str(refused.value) == (
        f"{file} has mode {mode:o}, others may read it; accepted is a file of its owner alone: "
        f"chmod 600 {file}"
    )


def test_what_is_no_file_of_text_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="none: No such file or directory"):
        secret_of(tmp_path / "none", {})
    with pytest.raises(SecretError, match="Is a directory"):
        secret_of(tmp_path, {})
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(SecretError, match="fifo is no file"):
        secret_of(tmp_path / "fifo", {})
    file.write_bytes(b"\xff" * 20)
    with pytest.raises(SecretError, match="secret is no text"):
        secret_of(file, {})


def test_a_short_one_is_refused_and_not_shown(file: Path) -> None:
    file.write_text("hunter2        \n\n\n")
    with pytest.raises(SecretError) as refused:
        secret_of(file, {})
    assert str(refused.value) == f"the secret in {file} is shorter than 16 characters"
    with pytest.raises(SecretError, match="the secret in BUSBW_SECRET is shorter than 16"):
        secret_of(None, {"BUSBW_SECRET": "hunter2"})


def test_without_any_it_says_where_one_is_accepted() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with pytest.raises(SecretError) as refused:
        secret_of(None, {}, Terminal(TEXT))
    assert str(refused.value) == (
        "there is no secret; accepted is one in the file that --secret-file names, or in the "
        "variable BUSBW_SECRET"
    )


def test_an_address_with_colons_has_brackets() -> None:
    assert address_text("10.0.0.1", 4000) == "10.0.0.1:4000"
    assert address_text("fe80::1", 4000) == "[fe80::1]:4000"


@pytest.mark.parametrize("address", [("10.0.0.1", 4000), ("fe80::1", 4000), ("host-a", 1)])
def test_what_is_written_is_read_again(address: tuple[str, int]) -> None:
    assert split_address(address_text(*address)) == address


@pytest.mark.parametrize("text", ["here", "here:", "here:x", "here:65536", "here:-1", "here:0"])
def test_what_has_no_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="accepted is HOST:PORT"):
        split_address(text, least_port=1)


def test_a_name_is_looked_up() -> None:
    assert number_of("localhost") in ("127.0.0.1", "::1")
    assert address_of("127.0.0.1:0") == ("127.0.0.1", 0)
    with pytest.raises(ValueError, match="there is no host"):
        address_of("no.such.host.invalid:1")


@pytest.mark.parametrize(
    ("number", "any_network", "loopback"),
    [
        ("0.0.0.0", True, False),
        ("::", True, False),
        ("::ffff:0.0.0.0", True, False),
        ("127.0.1.1", False, True),
        ("::1", False, True),
        ("::ffff:127.0.0.1", False, True),
        ("10.0.0.1", False, False),
        ("fe80::1%eth0", False, False),
    ],
)
def test_addresses_that_stand_for_all_or_only_this_host_are_told(
    number: str, any_network: bool, loopback: bool
) -> None:
    assert (is_any(number), is_loopback(number)) == (any_network, loopback)

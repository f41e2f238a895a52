"""Agents as processes of their own, and a session that a test plays itself."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import busbw
from busbw import locks
from busbw.driver.local import order_of
from busbw.driver.transport import Starter
from busbw.hosts import messages
from busbw.hosts.connection import Connection, Direction, Key, Lost, Splitter, fresh_nonce, key_of
from busbw.hosts.messages import Message, ToAgent, ToSession
from busbw.model.launch import LaunchId

SECRET = b"a secret of tests"
LONG_S = 60.0
HOST = "127.0.0.1"


def machine_of(host: str) -> str:
    """What the agents of that host have as their machine."""
    return f"{os.environ.get(locks.MACHINE, '')}/{host}"


@contextmanager
def lock_of(host: str, wait_s: float) -> Iterator[None]:
    """Hold the lock of the machine that the agents of that host have."""
    with contextlib.ExitStack() as held:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(locks.MACHINE, machine_of(host))
            held.enter_context(locks.machine(wait_s))
        yield


@contextmanager
def agent(
    port: int, rank: int = 0, *options: str, host: str = "", secret: bytes = SECRET
) -> Iterator[subprocess.Popen[str]]:
    """An agent that connects to `port`, as a user would start it; ended at the end.

    With a `host` it is on a machine of that name, which is not that of the session.
    """
    command = [sys.executable, "-m", "busbw", "agent", f"--session={HOST}:{port}"]
    environment = dict(os.environ, PYTHONPATH=str(Path(busbw.__file__).parents[1]))
    if host:
        command.append(f"--host-name={host}")
        environment[locks.MACHINE] = machine_of(host)
    process = subprocess.Popen(
        [*command, f"--rank={rank}", "--wait=10", *options],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(f"{secret.decode()}\n")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for its end: exit code, and what it wrote to stderr."""
    assert process.stderr is not None
    text = process.stderr.read()
    return process.wait(LONG_S), text


def listening() -> socket.socket:
    return socket.create_server((HOST, 0))


def hello_of(sock: socket.socket) -> tuple[bytes, messages.Hello]:
    """The session's first frame on a connection, as bytes and as what it says."""
    splitter, found = Splitter(), b""
    while True:
        read = sock.recv(65536)
        assert read
        found += read
        splitter.add(read)
        frame = splitter.frame()
        if frame is not None:
            return found, messages.decoded(messages.Hello, frame.body)


def proof_frame(secret: bytes, session: bytes, nonce: bytes) -> bytes:
    proof = messages.Hello(protocol=messages.PROTOCOL, nonce=nonce.hex())
    key = key_of(secret, Direction.TO_SESSION, session, nonce)
    return Key(key).sealed(messages.encoded(proof))


def say_join(sock: socket.socket, body: bytes = b"") -> None:
    """Prove the secret as an agent does, and say `body`: by default, that of another Python."""
    _, hello = hello_of(sock)
    nonce = fresh_nonce()
    key = Key(key_of(SECRET, Direction.TO_SESSION, bytes.fromhex(hello.nonce), nonce))
    proof = messages.Hello(protocol=messages.PROTOCOL, nonce=nonce.hex())
    sock.sendall(key.sealed(messages.encoded(proof)))
    assert b'"refused": ""' in sock.recv(65536)
    join = messages.Join(rank=0, host="unknown", python="3")
    sock.sendall(key.sealed(body or messages.encoded(join)))


class Session:
    """The session's side of one agent's connection, message by message."""

    def __init__(self, listening: socket.socket, **welcome: float) -> None:
        listening.settimeout(LONG_S)
        self.connection = Connection(listening.accept()[0])
        try:
            self._welcome(**welcome)
        except BaseException:
            self.close()
            raise

    def _welcome(self, **welcome: float) -> None:
        nonce, end_s = fresh_nonce(), time.monotonic() + LONG_S
        hello = messages.Hello(protocol=messages.PROTOCOL, nonce=nonce.hex())
        self.connection.send(messages.encoded(hello))
        frame = self.connection.received(end_s)
        agent = bytes.fromhex(messages.decoded(messages.Hello, frame.body).nonce)
        self.connection.prove(SECRET, Direction.TO_AGENT, nonce, agent)
        self.connection.checked(frame)
        found = messages.Welcome(protocol=messages.PROTOCOL, **welcome)  # type: ignore[arg-type]
        self.connection.send(messages.encoded(found))
        self.join = messages.decoded(messages.Join, self.connection.receive(end_s))
        self.connection.trust()
        self.connection.send(messages.encoded(found))

    def post(self, operation: ToAgent, value: object = None, worker: int = 0) -> None:
        """Say this, with a value where the operation has one."""
        content = messages.encoded(value) if value is not None else b""
        self.connection.send(Message(operation, content, worker).body)

    def send_files(self, files: dict[str, bytes]) -> None:
        """Send the files that workers run, and wait until they are there."""
        self.connection.send(Message(ToAgent.FILES, messages.pack(files)).body)
        self.heard(ToSession.READY)

    def start(self, starter: Starter, worker: int = 1) -> None:
        self.post(ToAgent.START, order_of(starter, LaunchId(name=f"{worker}")), worker)

    def heard(self, operation: ToSession, timeout_s: float = LONG_S) -> Message:
        """The next message with it; others are left out, and the session gives signs of life.

        Raises Lost where the agent closes the connection.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            message = messages.read(ToSession, self.connection.receive(end_s))
            if message.operation is operation:
                return message
            self.post(ToAgent.BEAT)

    def is_closed(self) -> bool:
        """Whether the agent has closed the connection, without another word."""
        try:
            self.heard(ToSession.READY)
        except Lost:
            return True
        return False

    def close(self) -> None:
        self.connection.close()

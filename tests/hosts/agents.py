"""Agents as processes of their own, and a session that a test plays itself."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

import busbw
from busbw import locks
from busbw.driver.local import order_of
from busbw.driver.transport import Starter
from busbw.hosts import messages
from busbw.hosts.connection import (
    Connection,
    Direction,
    Frame,
    Lost,
    Sealer,
    SocketChannel,
    Splitter,
    fresh_nonce,
    key_of,
)
from busbw.hosts.messages import parts_of
from busbw.model.launch import LaunchId

SECRET = b"a secret of tests"
LONG_S = 60.0
HOST = "127.0.0.1"

T = TypeVar("T")


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
            return found, messages.read(messages.Hello, frame.body)


def proof_frame(secret: bytes, session: bytes, nonce: bytes) -> bytes:
    proof = messages.Proof(protocol=messages.PROTOCOL, nonce=nonce.hex())
    key = key_of(secret, Direction.TO_SESSION, session, nonce)
    return Sealer(key).sealed(messages.body_of(proof))


def say_join(sock: socket.socket, body: bytes = b"") -> None:
    """Prove the secret as an agent does, and say `body`: by default, that of another Python."""
    _, hello = hello_of(sock)
    nonce = fresh_nonce()
    sealer = Sealer(key_of(SECRET, Direction.TO_SESSION, bytes.fromhex(hello.nonce), nonce))
    proof = messages.Proof(protocol=messages.PROTOCOL, nonce=nonce.hex())
    sock.sendall(sealer.sealed(messages.body_of(proof)))
    assert b'"kind": "welcome"' in sock.recv(65536)
    join = messages.Join(rank=0, host="unknown", python="3")
    sock.sendall(sealer.sealed(body or messages.body_of(join)))


class Session:
    """The session's side of one agent's connection, message by message."""

    def __init__(self, listening: socket.socket, **welcome: float) -> None:
        listening.settimeout(LONG_S)
        sock, _ = listening.accept()
        self.connection = Connection(SocketChannel(sock))
        try:
            self._welcome(**welcome)
        except BaseException:
            self.close()
            raise

    def _welcome(self, **welcome: float) -> None:
        nonce = fresh_nonce()
        self.post(messages.Hello(protocol=messages.PROTOCOL, nonce=nonce.hex()))
        frame = self._frame()
        agent = bytes.fromhex(messages.read(messages.Proof, frame.body).nonce)
        self.connection.prove(SECRET, Direction.TO_AGENT, nonce, agent)
        self.connection.checked(frame)
        self.post(messages.Welcome(protocol=messages.PROTOCOL))
        self.join = messages.read(messages.Join, self.connection.checked(self._frame()))
        self.connection.trust()
        self.post(messages.Welcome(protocol=messages.PROTOCOL, **welcome))  # type: ignore[arg-type]

    def _frame(self) -> Frame:
        frame = None
        while frame is None:
            self._receive()
            frame = self.connection.frame()
        return frame

    def post(self, message: messages.Hello | messages.ToAgent) -> None:
        self.connection.post(message)
        self.connection.flush()

    def send_files(self, files: dict[str, bytes]) -> None:
        """Send the files that workers run, and wait until they are there."""
        for part in parts_of(files):
            self.post(part)
        self.heard(messages.FilesReady)

    def start(self, starter: Starter, worker: int = 1) -> None:
        order = order_of(starter, LaunchId(name=f"{worker}"))
        self.post(messages.Start(worker=worker, order=order))

    def heard(self, kind: type[T], timeout_s: float = LONG_S) -> T:
        """The next message of this kind; others are left out, and the session gives signs of life.

        Raises Lost where the agent closes the connection.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            while (body := self.connection.body()) is not None:
                message = messages.read(messages.ToSession, body)
                if isinstance(message, kind):
                    return message
            assert time.monotonic() < end_s, f"no {kind.__name__} was heard"
            self.post(messages.Beat())
            self._receive()

    def is_closed(self) -> bool:
        """Whether the agent has closed the connection, without another word."""
        try:
            self.heard(messages.FilesReady)
        except Lost:
            return True
        return False

    def close(self) -> None:
        self.connection.close()

    def _receive(self) -> None:
        ready, _, _ = select.select([self.connection], [], [], 0.5)
        if ready:
            self.connection.receive()

"""The socket of a session, opened or handed over."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import busbw
from busbw.driver.process import Order
from busbw.driver.transport import Request
from busbw.hosts import messages
from busbw.hosts.messages import ToAgent
from busbw.hosts.peers import DESCRIPTOR, AgentWorker, hand_over, handed_over, listening_at
from busbw.model.launch import LaunchId

_BECOMES = """
import os, sys
from busbw.hosts.peers import handed_over
with handed_over(os.environ) as listening:
    print(os.get_inheritable(listening.fileno()), len(os.environ.get("BUSBW_LISTENING", "")))
    sys.stdout.flush()
    listening.accept()[0].sendall(b"here")
"""
_BEGINS = """
import os, sys
from busbw.hosts.peers import hand_over, listening_at
listening = listening_at("127.0.0.1", 0)
print(listening.getsockname()[1], flush=True)
hand_over(listening, os.environ)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


def test_what_a_process_becomes_has_its_socket() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _BEGINS, _BECOMES],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(busbw.__file__).parents[1])},
    ) as process:
        assert process.stdout is not None
        # Before the program that answers has begun.
        with socket.create_connection(("127.0.0.1", int(process.stdout.readline()))) as sock:
            assert sock.recv(10) == b"here"
        assert process.stdout.read() == "False 0\n"
    assert process.returncode == 0


def test_a_process_that_was_given_none_has_none() -> None:
    environment = {"HOME": "/"}
    assert handed_over(environment) is None
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize("text", ["x", "-1", "99999"])
def test_what_is_no_descriptor_is_refused(text: str) -> None:
    with pytest.raises(OSError):
        handed_over({DESCRIPTOR: text})


def test_a_file_is_no_socket(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, pytest.raises(OSError, match="non-socket"):
        handed_over({DESCRIPTOR: str(file.fileno())})


def test_it_is_taken_once() -> None:
    environment: dict[str, str] = {}
    with listening_at("127.0.0.1", 0) as listening:
        hand_over(listening, environment)
        found = handed_over(environment)
        assert found is not None and found.getsockname() == listening.getsockname()
        assert handed_over(environment) is None
        # Two objects have one descriptor here.
        found.detach()


class Heard:
    """A peer that is there and does nothing."""

    why_lost = ""

    def __init__(self) -> None:
        self.workers: dict[int, AgentWorker] = {}
        self.heard: list[tuple[ToAgent, bytes]] = []

    def next_number(self) -> int:
        return 1

    def post(self, operation: ToAgent, content: bytes = b"", worker: int = 0) -> None:
        """Remember it."""
        self.heard.append((operation, content))


def test_an_agent_leaves_the_session_the_time_to_end_a_worker_at_its_deadline_itself() -> None:
    peer: Any = Heard()
    worker = AgentWorker(peer, Order(name="1.fake"), LaunchId.parse("1"), clock=time.monotonic)
    worker.allow(5.0)
    worker.send(Request("probe"))
    worker.lost("done")
    worker.kill()
    (sent,) = [content for one, content in peer.heard if one is ToAgent.SEND]
    assert messages.decoded(messages.Send, sent).timeout_s >= 5.0 + 10.0

"""`busbw agent`: its options, and the sentences with which it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.agents import HOST, SECRET, Session, agent, ended, listening

SESSION = f"--session={HOST}:1"


def done(*options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command, with this on stdin."""
    command = [sys.executable, "-m", "busbw", "agent", *options]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "the following arguments are required: --session, --rank"),
        ((SESSION, "--rank=-1"), "'-1'; accepted is a whole number from 0 on"),
        (("--session=here", "--rank=0"), "'here'; accepted is HOST:PORT"),
        (("--session=here:0", "--rank=0"), "'here:0'; accepted is HOST:PORT"),
        (("--session=:4000", "--rank=0"), "expected HOST:PORT, got ':4000'"),
        ((SESSION, "--rank=0", "--host-name="), "expected a value, got an empty text"),
        ((SESSION, "--rank=0", "--secret=mine"), "unrecognized arguments: --secret=mine"),
        ((SESSION, "--rank=0", "--secret-file=/none"), "/none: No such file or directory"),
        ((SESSION, "--rank=0"), "the secret on stdin is shorter than 16 characters"),
    ],
)
def test_wrong_options_are_a_usage_error(options: tuple[str, ...], why: str) -> None:
    found = done(*options)
    assert found.returncode == 2
    assert found.stderr.splitlines()[-1].endswith(why)


def test_a_secret_that_others_can_read_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o640)
    found = done(SESSION, "--rank=0", f"--secret-file={path}")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        f"busbw agent: {path} has mode 640, others may read it; accepted is a file of its owner "
        f"alone: chmod 600 {path}\n"
    )


def test_a_session_that_is_not_there_is_one_sentence() -> None:
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    found = done(f"--session={HOST}:{port}", "--rank=0", "--wait=0", stdin=SECRET.decode())
    assert (found.returncode, found.stderr) == (
        1,
        f"busbw agent: no session at {HOST}:{port} within 0 s (Connection refused)\n",
    )


def test_a_wrong_secret_is_one_sentence() -> None:
    with (
        listening() as port,
        agent(port.getsockname()[1], secret=b"another secret of tests") as one,
    ):
        with pytest.raises(Exception, match="was not made with the secret"):
            Session(port)
        port.close()
        code, text = ended(one)
    assert code == 1
    assert text.startswith("busbw agent: the session at 127.0.0.1:")
    assert "does not have the same secret" in text
    assert len(text.splitlines()) == 1


def test_an_interrupt_is_one_sentence_and_ends_it_by_its_signal() -> None:
    with listening() as port, agent(port.getsockname()[1]) as one:
        connected, _ = port.accept()
        one.send_signal(signal.SIGINT)
        code, text = ended(one)
        connected.close()
    assert (code, text) == (-signal.SIGINT, "busbw: interrupted\n")

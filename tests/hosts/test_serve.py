"""An agent's loop: real agents, a session that the test plays, no worker left; and its lock."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from busbw import locks
from busbw.driver.bundle import Bundle
from busbw.driver.process import Order
from busbw.driver.transport import Starter, request_line
from busbw.hosts import messages
from busbw.hosts.messages import parts_of
from busbw.hosts.serve import MachineLock
from tests.driver.workers import measure, processes, starter, wait_until
from tests.sweep import sweep

from .agents import Session, agent, ended, listening

pytestmark = pytest.mark.workers

HANG = starter(cases=[{"then": "hang"}])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where agents have their folders; each is gone in the end, and so are their workers."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert wait_until(lambda: not processes(tmp_path), 10)


def folders(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith("busbw-")]


Joined = tuple[Session, subprocess.Popen[str]]


@contextmanager
def joined(rank: int = 0, host: str = "", /, **welcome: float) -> Iterator[Joined]:
    """A session and the agent that has joined it."""
    with (
        listening() as port,
        agent(port.getsockname()[1], rank, host=host) as process,
        contextlib.closing(Session(port, **welcome)) as session,
    ):
        yield session, process


@contextmanager
def measuring(bundle: Bundle, begin: Starter, **welcome: float) -> Iterator[Joined]:
    """The same once a worker is ready that the agent has started."""
    with joined(**welcome) as (session, process):
        session.send_files(bundle.sources())
        session.start(begin)
        assert b'"ready"' in said(session)
        yield session, process


def said(session: Session) -> bytes:
    return base64.b64decode(session.heard(messages.Output).content)


def ask(session: Session, timeout_s: float = 60.0) -> None:
    line = request_line(measure()).decode().strip()
    session.post(messages.Send(worker=1, line=line, timeout_s=timeout_s))


def test_it_says_who_it_is(folder: Path) -> None:
    with joined(3, "two") as (session, process):
        assert (session.join.rank, session.join.host) == (3, "two")
        session.post(messages.Goodbye())
        assert ended(process) == (0, "")
    assert not folders(folder)


def test_a_worker_that_is_killed_says_by_which_signal(bundle: Bundle) -> None:
    with measuring(bundle, HANG) as (session, _):
        session.post(messages.Kill(worker=1))
        assert session.heard(messages.Exited).exit.exit_code == -signal.SIGKILL
        # Its end was reported: it is asked in vain.
        for message in (
            messages.Kill(worker=1),
            messages.Close(worker=1),
            messages.PrintStack(worker=1),
        ):
            session.post(message)
        ask(session)
        session.post(messages.FindPorts(count=2))
        assert len(set(session.heard(messages.FreePorts).ports)) == 2


def test_a_lost_connection_ends_everything(bundle: Bundle, folder: Path) -> None:
    with measuring(bundle, HANG) as (session, process):
        ask(session)
        assert len(processes(folder)) >= 1
        session.close()
        code, text = ended(process)
    assert (code, text) == (
        1,
        "busbw agent: the connection to the session is lost: it was closed\n",
    )
    assert not processes(folder)


def test_a_session_that_gives_no_sign_of_life_ends_everything(bundle: Bundle, folder: Path) -> None:
    with measuring(bundle, HANG, beat_s=0.1, missed_s=1.0) as (_, process):
        code, text = ended(process)
    assert (code, text) == (
        1,
        "busbw agent: the connection to the session is lost: no sign of life for 1 s\n",
    )
    assert not processes(folder)


def test_it_gives_signs_of_life_while_nothing_is_asked() -> None:
    with joined(beat_s=0.05) as (session, _):
        for _ in range(3):
            session.heard(messages.Alive)


def test_a_deadline_that_has_passed_ends_everything(bundle: Bundle, folder: Path) -> None:
    with measuring(bundle, HANG, beat_s=0.1) as (session, process):
        ask(session, timeout_s=0.3)
        assert session.is_closed()
        code, text = ended(process)
    assert (code, text) == (1, "busbw agent: 1.fake did not answer by its deadline\n")
    assert not processes(folder)


def test_a_worker_that_has_answered_has_no_deadline_any_more(bundle: Bundle) -> None:
    with measuring(bundle, starter(), beat_s=0.1) as (session, _):
        ask(session, timeout_s=0.5)
        said(session)
        for _ in range(10):
            session.heard(messages.Alive)
        ask(session)
        assert b'"reply": "Run"' in said(session)


@pytest.mark.parametrize("number", sweep([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
def test_a_signal_ends_everything(bundle: Bundle, folder: Path, number: signal.Signals) -> None:
    with measuring(bundle, HANG) as (session, process):
        process.send_signal(number)
        assert session.is_closed()
        assert ended(process) == (1, "busbw agent: a signal ended this agent\n")
    assert not processes(folder)
    assert folders(folder) == [bundle.path.name]


def test_kill_9_leaves_no_worker_and_the_next_agent_removes_the_folder(
    bundle: Bundle, folder: Path
) -> None:
    with measuring(bundle, HANG) as (session, process):
        ask(session)
        process.kill()
        assert session.is_closed()
        assert wait_until(lambda: not processes(folder), 10)
    assert len(folders(folder)) == 2
    with measuring(bundle, starter()):
        assert len(folders(folder)) == 2


def test_a_session_that_sends_other_files_than_it_says_is_left(bundle: Bundle) -> None:
    (part,) = parts_of({"__main__.py": b""})
    with joined() as (session, process):
        session.post(messages.Files(hash="0" * 64, content=part.content, left=0))
        code, text = ended(process)
    assert code == 1
    assert text.startswith("busbw agent: their hash is ")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            messages.Start(worker=1, order=Order(name="1")),
            "the session starts a worker before it has sent its files",
        ),
        (messages.FindPorts(count=100_000), "the session asks for 100000 ports"),
    ],
)
def test_a_session_that_asks_for_what_none_does_is_left(
    message: messages.ToAgent, why: str
) -> None:
    with joined() as (session, process):
        session.post(message)
        assert ended(process) == (1, f"busbw agent: {why}\n")


@pytest.mark.parametrize("name", sweep(["../1", "/tmp/1", "", ".hidden", "a/b"], in_gate=2))
def test_a_log_is_in_the_folder(bundle: Bundle, name: str) -> None:
    with joined() as (session, process):
        session.send_files({"__main__.py": b""})
        session.post(messages.Start(worker=1, order=Order(name=name)))
        code, text = ended(process)
    assert (code, text) == (1, f"busbw agent: worker 1: {name!r} cannot be started\n")


# More than a listening socket can have waiting.
MANY = 1500


@pytest.fixture
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locks.MACHINE, str(tmp_path))


@pytest.mark.usefixtures("own_machine")
def test_a_free_lock_is_had_at_once_and_until_it_is_closed() -> None:
    lock = MachineLock()
    assert lock.look() is None
    lock.ask(messages.Lock(wait_s=1.0))
    assert lock.look() == messages.Locked()
    assert not lock.is_awaited
    with pytest.raises(locks.Busy), locks.machine(0):
        pass
    lock.close()
    with locks.machine(0):
        pass


@pytest.mark.usefixtures("own_machine")
def test_a_holder_that_was_waited_for_long_is_still_named() -> None:
    now_s = [0.0]
    lock = MachineLock(lambda: now_s[0])
    with locks.machine(0):
        lock.ask(messages.Lock(wait_s=10.0))
        assert [lock.look() for _ in range(MANY)] == [None] * MANY
        now_s[0] = 11.0
        found = lock.look()
    assert found is not None
    assert found.why.startswith(f"pid {os.getpid()}, started ")
    assert not lock.is_awaited


@pytest.mark.usefixtures("own_machine")
def test_a_holder_that_runs_is_waited_for_where_a_stopped_one_is_not() -> None:
    lock = MachineLock()
    with locks.machine(0):
        lock.ask(messages.Lock(wait_s=10.0, even_stopped=False))
        assert [lock.look() for _ in range(MANY)] == [None] * MANY
    assert lock.look() == messages.Locked()
    lock.close()


@pytest.mark.usefixtures("own_machine")
def test_a_lock_that_is_released_meanwhile_is_had() -> None:
    lock = MachineLock()
    with locks.machine(0):
        lock.ask(messages.Lock(wait_s=10.0))
        assert lock.look() is None
    assert lock.look() == messages.Locked()
    lock.close()

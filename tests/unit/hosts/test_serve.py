"""An agent's loop: real agents, a session that the test plays, no worker left; and its lock."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from busbw import locks
from busbw.driver.bundle import Bundle
from busbw.driver.process import Exit, Order
from busbw.driver.transport import Starter, request_line
from busbw.hosts import messages
from busbw.hosts.connection import Lost
from busbw.hosts.messages import Ports, ToAgent, ToSession
from busbw.hosts.serve import MachineLock
from tests.helpers.agents import LONG_S, Session, agent, ended, listening
from tests.helpers.sweep import sweep
from tests.helpers.workers import measure, processes, starter, wait_until

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
    return session.heard(ToSession.OUTPUT).content


def ask(session: Session, timeout_s: float = 60.0) -> None:
    line = request_line(measure()).decode().strip()
    session.post(ToAgent.SEND, messages.Send(line=line, timeout_s=timeout_s), 1)


def test_it_says_who_it_is(folder: Path) -> None:
    with joined(3, "two") as (session, process):
        assert (session.join.rank, session.join.host) == (3, "two")
        session.post(ToAgent.GOODBYE)
        assert ended(process) == (0, "")
    assert not folders(folder)


def test_a_worker_that_is_killed_says_by_which_signal(bundle: Bundle) -> None:
    with measuring(bundle, HANG) as (session, _):
        session.post(ToAgent.KILL, worker=1)
        assert session.heard(ToSession.EXITED).value(Exit).exit_code == -signal.SIGKILL
        # Its end was reported: it is asked in vain.
        for operation in (ToAgent.KILL, ToAgent.CLOSE, ToAgent.PRINT_STACK):
            session.post(operation, worker=1)
        ask(session)
        session.post(ToAgent.FIND_PORTS, 2)
        assert len(set(session.heard(ToSession.FREE_PORTS).value(Ports).numbers)) == 2


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
            session.heard(ToSession.ALIVE)


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
            session.heard(ToSession.ALIVE)
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


@pytest.mark.parametrize(
    ("operation", "value", "why"),
    [
        (
            ToAgent.START,
            Order(name="1"),
            "the session starts a worker before it has sent its files",
        ),
        (ToAgent.FIND_PORTS, 100_000, "the session asks for 100000 ports"),
        (ToAgent.FILES, None, "they cannot be unpacked: no files"),
    ],
)
def test_a_session_that_asks_for_what_none_does_is_left(
    operation: ToAgent, value: object, why: str
) -> None:
    with joined() as (session, process):
        session.post(operation, value, 1)
        assert ended(process) == (1, f"busbw agent: {why}\n")


@pytest.mark.parametrize(
    ("welcome", "got"),
    sweep([({"beat_s": -1.0}, "beat_s: {}-1"), ({"missed_s": 1e300}, "missed_s: {}1e+300")]),
)
def test_a_welcome_with_times_that_none_has_is_refused(welcome: dict[str, float], got: str) -> None:
    with listening() as port, agent(port.getsockname()[1]) as process:
        with pytest.raises(Lost):
            Session(port, **welcome)
        code, text = ended(process)
    assert (code, text.count("\n")) == (1, 1)
    assert f"says no welcome: message.{got.format('expected 1e-12 to 1e+06 seconds, got ')}" in text


@pytest.mark.parametrize(
    ("order", "why"),
    sweep(
        [
            (
                Order(name="1", environment={"A=B": ""}),
                "python: illegal environment variable name",
            ),
            (Order(name="1", python="/none"), "/none cannot be started: No such file or directory"),
        ]
    ),
)
def test_a_worker_that_cannot_be_started_is_over_and_its_log_says_why(
    order: Order, why: str
) -> None:
    with joined() as (session, _):
        session.send_files({"__main__.py": b""})
        session.post(ToAgent.START, order, 1)
        assert session.heard(ToSession.EXITED).value(Exit) == Exit(
            exit_code=127, log=why, reason=why
        )


def test_a_session_that_sends_its_files_twice_is_left() -> None:
    with joined() as (session, process):
        session.send_files({"__main__.py": b""})
        with pytest.raises(Lost):
            session.send_files({"__main__.py": b""})
        assert ended(process) == (1, "busbw agent: the session sends its files twice\n")


@pytest.mark.parametrize("name", sweep(["../1", "/tmp/1", "", ".hidden", "a/b"], in_gate=2))
def test_a_log_is_in_the_folder(bundle: Bundle, name: str) -> None:
    with joined() as (session, process):
        session.send_files({"__main__.py": b""})
        session.post(ToAgent.START, Order(name=name), 1)
        code, text = ended(process)
    assert (code, text) == (1, f"busbw agent: worker 1: {name!r} cannot be started\n")


@pytest.fixture
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locks.MACHINE, str(tmp_path))


@contextmanager
def asked(**lock: float) -> Iterator[queue.SimpleQueue[messages.Locked]]:
    """What is said of a lock that is asked for so; released in the end."""
    said: queue.SimpleQueue[messages.Locked] = queue.SimpleQueue()
    with contextlib.closing(MachineLock(said.put)) as found:
        found.ask(messages.Lock(**lock))  # type: ignore[arg-type]
        yield said


@pytest.mark.usefixtures("own_machine")
def test_a_free_lock_is_had_at_once_and_until_it_is_closed() -> None:
    with asked(wait_s=1.0) as said:
        assert said.get(timeout=LONG_S) == messages.Locked()
        with pytest.raises(locks.Busy), locks.machine(0):
            pass
    with locks.machine(0):
        pass


@pytest.mark.usefixtures("own_machine")
def test_a_holder_that_was_waited_for_is_named() -> None:
    with locks.machine(0), asked(wait_s=0.2) as said:
        found = said.get(timeout=LONG_S)
    assert found.why.startswith(f"pid {os.getpid()}, started ")
    assert not found.is_stopped


@pytest.mark.usefixtures("own_machine")
@pytest.mark.parametrize("even_stopped", [True, False])
def test_a_lock_that_is_released_meanwhile_is_had(*, even_stopped: bool) -> None:
    """A holder that runs is waited for, where a stopped one is not, too."""
    with contextlib.ExitStack() as other:
        other.enter_context(locks.machine(0))
        with asked(wait_s=LONG_S, even_stopped=even_stopped) as said:
            with pytest.raises(queue.Empty):
                said.get(timeout=0.2)
            other.close()
            assert said.get(timeout=LONG_S) == messages.Locked()

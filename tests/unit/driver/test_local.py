"""Workers on this host: their starts, answers and exits, and the lock of the machine."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw import storage
from busbw.driver import logs
from busbw.driver.bundle import Bundle
from busbw.driver.local import (
    LocalTransport,
    LocalWorker,
    lock_this_machine,
    oom_kill_count,
    public_log_text,
    worker_environment,
)
from busbw.driver.logs import failure_of_exit
from busbw.driver.transport import HostError, Reply, WorkerExit, WorkerSpec
from busbw.model.launch import Failure, LaunchId
from busbw.model.words import FailureKind, OutOfMemoryDetection
from tests.helpers.damage import bounded
from tests.helpers.workers import (
    answer_of,
    await_ready,
    kill,
    processes,
    worker_spec,
    write_program,
)
from tests.helpers.workers import measure as request

pytestmark = pytest.mark.workers

LONG_S = 60.0
# What a program does to the socket on which a worker replies.
SILENT = "os.close(number)"
TWICE = r"""os.write(number, b'{"reply": "NoneType", "value": null}\n' * 2)"""
PROGRAM = """\
#!{python}
import os, sys, time

(number,) = (int(word.split("=")[1]) for word in sys.argv if word.startswith("--socket="))
{act}
time.sleep(60)
"""
SHORT_S = 0.4


@contextmanager
def ready(bundle: Bundle, begin: WorkerSpec) -> Iterator[LocalWorker]:
    worker = LocalWorker(begin, bundle, LaunchId.parse("1.fake"))
    try:
        await_ready(worker, LONG_S)
        yield worker
    finally:
        kill(worker)


def measure(worker: LocalWorker, timeout_s: float = LONG_S) -> Reply | WorkerExit:
    return answer_of(worker, request(), timeout_s)


@pytest.mark.parametrize(
    ("act", "invalid", "kind"),
    [(SILENT, "", FailureKind.TIMEOUT), (TWICE, "more than one", FailureKind.CRASHED)],
)
def test_the_driver_ends_a_worker_that_closes_its_socket_or_replies_twice(
    bundle: Bundle,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    act: str,
    invalid: str,
    kind: FailureKind,
) -> None:
    """Record no exit code, because the driver itself has ended the worker."""
    monkeypatch.setattr("busbw.driver.local.EXIT_GRACE_S", SHORT_S)
    program = write_program(tmp_path / "program", PROGRAM.format(python=sys.executable, act=act))
    begin = WorkerSpec(python=str(program), framework="fake")
    answer = answer_of(LocalWorker(begin, bundle, LaunchId.parse("1.fake")), None, LONG_S)
    assert isinstance(answer, WorkerExit)
    assert (answer.exit_code, answer.reply_error) == (None, invalid)
    assert failure_of_exit(answer, LaunchId.parse("1.fake"), "starting").kind is kind
    assert not processes(bundle.path)


def test_the_request_after_a_worker_was_killed_is_answered_with_its_exit_code(
    bundle: Bundle,
) -> None:
    with ready(bundle, worker_spec()) as worker:
        os.kill(worker.pid, signal.SIGKILL)
        answer = measure(worker)
    assert isinstance(answer, WorkerExit)
    assert answer.exit_code == -signal.SIGKILL


def test_a_worker_that_the_system_cannot_start_is_an_error_with_a_readable_message(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel takes no variable of more than 128 KiB.
    begin = replace(worker_spec(), environment={"LARGE": "x" * 2**18})
    monkeypatch.setattr(logs, "least_pids_limit", lambda: 30)
    cause = r"^a worker cannot be started on this host \(Argument .*; pids.max is 30$"
    with pytest.raises(HostError, match=cause):
        LocalTransport(bundle).start(begin, LaunchId.parse("1.fake"), None)


@pytest.mark.parametrize(
    ("user", "options", "noise"), [("", {}, "1"), ("0", {}, "0"), ("", {"NOISE": "2"}, "2")]
)
def test_a_variable_of_the_user_overrides_the_default_variable_of_a_framework(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, user: str, options: dict[str, str], noise: str
) -> None:
    monkeypatch.delenv("NOISE", raising=False)
    if user:
        monkeypatch.setenv("NOISE", user)
    environment = {**worker_spec().environment, **options}
    begin = replace(worker_spec(), default_variables={"NOISE": "1"}, environment=environment)
    assert worker_environment(begin, os.environ)["NOISE"] == noise


def test_a_session_on_a_machine_whose_lock_file_cannot_be_opened_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(storage.MACHINE_VARIABLE, str(tmp_path / "missing" / "machine"))
    with pytest.raises(HostError, match=r"the machine cannot be locked: .*missing/machine\.lock"):
        lock_this_machine(0).__enter__()


OOM = "terminate called: Out of memory"
WORDS = ("std::bad_alloc", OOM, "ran out of memory", "Cannot allocate memory")
KILLED_FOR_MEMORY = "the kernel killed the worker for memory"
DIED = "the framework ran out of memory and died"


def failed(exit_code: int | None, **fields: Any) -> Failure:
    exit_of_worker = WorkerExit(exit_code=exit_code, waited_s=1.5, **fields)
    return failure_of_exit(exit_of_worker, LaunchId.parse("2.fake"), "measuring a case")


@pytest.mark.parametrize(
    ("exit_code", "fields", "kind", "message"),
    [
        (None, {"log": OOM}, FailureKind.TIMEOUT, "the worker did not answer within 1.5 s"),
        (-signal.SIGKILL, {}, FailureKind.KILLED, "the worker was killed (SIGKILL)"),
        (-signal.SIGSEGV, {}, FailureKind.CRASHED, "the worker died of SIGSEGV"),
        (-123, {}, FailureKind.CRASHED, "the worker died of signal 123"),
        (3, {}, FailureKind.CRASHED, "the worker ended with exit code 3"),
        (0, {"log": OOM}, FailureKind.CRASHED, "the worker ended with exit code 0"),
        (-signal.SIGKILL, {"oom_kills": 1}, FailureKind.OUT_OF_MEMORY, KILLED_FOR_MEMORY),
        *((-signal.SIGABRT, {"log": words}, FailureKind.OUT_OF_MEMORY, DIED) for words in WORDS),
    ],
)
def test_each_way_in_which_a_worker_can_end_has_its_own_kind_of_failure_and_message(
    exit_code: int | None, fields: dict[str, Any], kind: FailureKind, message: str
) -> None:
    failure = failed(exit_code, **fields)
    assert failure.kind is kind
    assert failure.message == f"{message} while measuring a case"
    assert (str(failure.launch), failure.exit_code) == ("2.fake", exit_code)
    detected = {KILLED_FOR_MEMORY: OutOfMemoryDetection.KILLED, DIED: OutOfMemoryDetection.RAISED}
    assert failure.detected is detected.get(message)


def test_the_message_of_a_failure_contains_the_reason_from_the_log_except_after_sigkill() -> None:
    reason = "LLVM ERROR: pthread_create failed"
    aborted = failed(-signal.SIGABRT, reason=reason).message
    assert aborted == f"the worker died of SIGABRT while measuring a case: {reason}"
    refused = failed(-signal.SIGABRT, reason=reason, reached_pids_limit=30).message
    assert f"; pids.max (30 processes and threads) was reached: {reason}" in refused
    killed = failed(-signal.SIGKILL, reason=reason).message
    assert killed == "the worker was killed (SIGKILL) while measuring a case"


def test_the_number_of_out_of_memory_kills_is_0_if_vmstat_does_not_list_this_number(
    tmp_path: Path,
) -> None:
    vmstat = tmp_path / "vmstat"
    assert oom_kill_count(vmstat) == 0
    vmstat.write_text("pgfault 12\noom_kill 7\nthp 3\n")
    assert oom_kill_count(vmstat) == 7
    vmstat.write_text("pgfault 12\n")
    assert oom_kill_count(vmstat) == 0


def test_the_log_of_a_request_begins_at_the_offset_at_which_the_request_began(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"before\nafter \xff\n")
    assert public_log_text(log, 7) == "after \N{REPLACEMENT CHARACTER}"


def test_only_the_end_of_a_log_of_8_gib_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.seek(2**33)
        file.write(b"end")
    with bounded():
        assert public_log_text(log, 0).endswith("end")

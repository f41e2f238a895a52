"""What an ending means: from exit code, kernel counter and log to the kind of Failure."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from busbw.agent.processes import LOG_CHARACTERS, log_end, oom_kill_count
from busbw.driver.transport import Ended, failure_of
from busbw.model.launch import Failure, LaunchId
from busbw.model.words import FailureKind, FoundBy
from tests.fuzz.damage import bounded


def failure(exit_code: int | None, *, log: str = "", oom_kills: int = 0) -> Failure:
    """The Failure of a worker that ended so."""
    ended = Ended(exit_code=exit_code, log=log, oom_kills=oom_kills, waited_s=1.5)
    return failure_of(ended, LaunchId.parse("2.fake"), "measuring a case")


@pytest.mark.parametrize(
    ("exit_code", "kind", "message"),
    [
        (None, FailureKind.TIMEOUT, "the worker did not answer within 1.5 s"),
        (-signal.SIGKILL, FailureKind.KILLED, "the worker was killed (SIGKILL)"),
        (-signal.SIGSEGV, FailureKind.CRASHED, "the worker died of SIGSEGV"),
        (-signal.SIGABRT, FailureKind.CRASHED, "the worker died of SIGABRT"),
        (-123, FailureKind.CRASHED, "the worker died of signal 123"),
        (3, FailureKind.CRASHED, "the worker ended with exit code 3"),
        (0, FailureKind.CRASHED, "the worker ended with exit code 0"),
    ],
)
def test_each_ending_has_its_kind_and_its_words(
    exit_code: int | None, kind: FailureKind, message: str
) -> None:
    found = failure(exit_code, log="last words")
    assert found.kind is kind
    assert found.message == f"{message} while measuring a case"
    assert (found.launch.text, found.exit_code, found.log) == ("2.fake", exit_code, "last words")


def test_a_kill_while_the_kernel_counts_one_for_memory_is_out_of_memory() -> None:
    found = failure(-signal.SIGKILL, oom_kills=1)
    assert found.kind is FailureKind.OUT_OF_MEMORY
    assert found.found is FoundBy.KILLED


@pytest.mark.parametrize(
    "words", ["std::bad_alloc", "Out of memory", "ran out of memory", "Cannot allocate memory"]
)
def test_a_crash_after_last_words_of_memory_is_out_of_memory(words: str) -> None:
    found = failure(-signal.SIGABRT, log=f"terminate called: {words}")
    assert found.kind is FailureKind.OUT_OF_MEMORY
    assert found.found is FoundBy.RAISED


def test_words_of_memory_do_not_turn_a_hang_or_a_clean_exit_into_out_of_memory() -> None:
    assert failure(None, log="Out of memory").kind is FailureKind.TIMEOUT
    assert failure(0, log="Out of memory").kind is FailureKind.CRASHED


def test_the_kernels_count_is_read_and_is_0_where_there_is_none(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    assert oom_kill_count(vmstat) == 0
    vmstat.write_text("pgfault 12\noom_kill 7\nthp 3\n")
    assert oom_kill_count(vmstat) == 7
    vmstat.write_text("pgfault 12\n")
    assert oom_kill_count(vmstat) == 0


def test_the_end_of_a_log_begins_at_the_request_and_is_no_longer_than_its_limit(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    assert log_end(log, 0) == ""
    log.write_bytes(b"before\nafter \xff\n")
    assert log_end(log, 7) == "after \N{REPLACEMENT CHARACTER}"
    log.write_text("x" * 3 * LOG_CHARACTERS + "end")
    assert len(log_end(log, 0)) == LOG_CHARACTERS
    assert log_end(log, 0).endswith("end")


def test_of_a_log_that_fills_the_disk_only_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.seek(2**33)
        file.write(b"end")
    with bounded():
        assert log_end(log, 0).endswith("end")

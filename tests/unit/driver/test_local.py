"""Workers on this host: started, asked, ended, and what an end means; who measures alone."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import packaging
import pytest

from busbw import storage
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Interpreter, ProbeFailed, interpreter
from busbw.driver.local import BusyError, LocalTransport, Worker, alone, order_of
from busbw.driver.process import environment_of, log_text, oom_kill_count
from busbw.driver.transport import Ended, HostError, Reply, Starter, failure_of
from busbw.model.cluster import Cluster
from busbw.model.launch import Failure, LaunchId
from busbw.model.words import FailureKind, FoundBy
from tests.helpers.damage import bounded
from tests.helpers.workers import answer_of, await_ready, processes, starter, state, wait_until
from tests.helpers.workers import measure as request

pytestmark = pytest.mark.workers

LONG_S = 60.0
CLOSING = """\
#!{python}
import os, sys, time

for word in sys.argv:
    if word.startswith("--replies="):
        os.close(int(word.split("=")[1]))
time.sleep(60)
"""
TWICE = """\
#!{python}
import os, sys, time

for word in sys.argv:
    if word.startswith("--replies="):
        os.write(int(word.split("=")[1]), b'{{"reply": "NoneType", "value": null}}\\n' * 2)
time.sleep(60)
"""
SHORT_S = 0.4


@contextmanager
def ready(bundle: Bundle, begin: Starter) -> Iterator[Worker]:
    worker = Worker(begin, bundle, LaunchId.parse("1.fake"))
    try:
        await_ready(worker, LONG_S)
        yield worker
    finally:
        worker.kill()


def measure(worker: Worker, timeout_s: float = LONG_S) -> Reply | Ended:
    return answer_of(worker, request(), timeout_s)


def ended(bundle: Bundle, event: str, timeout_s: float = LONG_S) -> Ended:
    """How a worker ended that the script has `event` happen in mid-case."""
    with ready(bundle, starter(cases=[{"then": event}])) as worker:
        answer = measure(worker, timeout_s)
        assert isinstance(answer, Ended)
        assert f"the script says {event}" in answer.log
        assert wait_until(lambda: not processes(bundle.path), 5)
        return answer


def answered(answer: Reply | Ended) -> object:
    assert not isinstance(answer, Ended), answer.log
    return answer.answer


def test_an_exception_that_nobody_expected_is_an_exit_code_with_its_traceback(
    bundle: Bundle,
) -> None:
    with ready(bundle, starter(cases=[{"then": "no such event"}])) as worker:
        answer = measure(worker)
    assert isinstance(answer, Ended)
    assert answer.exit_code == 1
    assert "ValueError: BUSBW_FAKE: no event 'no such event'" in answer.log


def test_a_hang_that_holds_the_interpreter_lock_has_a_stack_too(bundle: Bundle) -> None:
    found = ended(bundle, "hang_with_lock", SHORT_S)
    assert found.exit_code is None
    assert 'fake/backend.py", line' in found.log


def test_a_worker_that_closes_its_replies_and_goes_on_hung_and_was_not_killed_by_others(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So that what the driver itself ends is not taken for the cause of what others did."""
    monkeypatch.setattr("busbw.driver.process.EXIT_GRACE_S", SHORT_S)
    program = tmp_path / "closing"
    program.write_text(CLOSING.format(python=sys.executable))
    program.chmod(0o755)
    worker = Worker(
        Starter(python=str(program), framework="fake"), bundle, LaunchId.parse("1.fake")
    )
    answer = answer_of(worker, None, LONG_S)
    assert isinstance(answer, Ended)
    assert answer.exit_code is None
    assert failure_of(answer, LaunchId.parse("1.fake"), "starting").kind is FailureKind.TIMEOUT
    assert not processes(bundle.path)


def test_a_worker_that_answers_twice_is_ended(bundle: Bundle, tmp_path: Path) -> None:
    program = tmp_path / "twice"
    program.write_text(TWICE.format(python=sys.executable))
    program.chmod(0o755)
    begin = Starter(python=str(program), framework="fake")
    worker = Worker(begin, bundle, LaunchId.parse("1.fake"))
    answer = answer_of(worker, None, LONG_S)
    worker.kill()
    assert isinstance(answer, Ended)
    assert answer.refused == "more than one"
    assert not processes(bundle.path)


def test_a_worker_that_was_killed_between_two_requests_is_an_ending_too(bundle: Bundle) -> None:
    with ready(bundle, starter()) as worker:
        os.kill(worker.pid, signal.SIGKILL)
        answer = measure(worker)
    assert isinstance(answer, Ended)
    assert answer.exit_code == -signal.SIGKILL


def test_one_that_ends_before_anybody_listens_has_said_why(bundle: Bundle, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho too old >&2\nexit 1\n")
    python.chmod(0o755)
    worker = Worker(starter(str(python)), bundle, LaunchId.parse("1.fake"))
    assert wait_until(lambda: state(worker.pid) == "Z", LONG_S)
    answer = answer_of(worker, None, LONG_S)
    worker.kill()
    assert isinstance(answer, Ended)
    assert (answer.exit_code, answer.log) == (1, "too old")


def test_what_was_logged_before_a_request_is_not_why_it_failed(bundle: Bundle) -> None:
    with ready(bundle, starter(cases=[{"then": "exit"}])) as worker:
        with bundle.log_path("1.fake.fake").open("a") as log:
            log.write("ran out of memory, and went on\n")
        answer = measure(worker)
    assert isinstance(answer, Ended)
    assert answer.log == "the script says exit"
    assert failure_of(answer, worker.launch, "measuring").kind is FailureKind.CRASHED


def test_killing_twice_is_no_error_and_leaves_no_descriptor_open(bundle: Bundle) -> None:
    before = len(os.listdir("/proc/self/fd"))
    worker = Worker(starter(), bundle, LaunchId.parse("1.fake"))
    worker.kill()
    worker.kill()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_worker_that_the_system_does_not_start_is_a_sentence(bundle: Bundle) -> None:
    # The kernel takes no variable of more than 128 KiB.
    begin = replace(starter(), environment={"LARGE": "x" * 2**18})
    with pytest.raises(HostError, match=r"^a worker cannot be started on this host \(Argument "):
        LocalTransport(bundle).start(begin, LaunchId.parse("1.fake"), None)


@pytest.mark.parametrize(
    ("user", "asked", "found"), [("", {}, "1"), ("0", {}, "0"), ("", {"NOISE": "2"}, "2")]
)
def test_what_a_framework_is_told_is_the_user_s_to_change(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, user: str, asked: dict[str, str], found: str
) -> None:
    monkeypatch.delenv("NOISE", raising=False)
    if user:
        monkeypatch.setenv("NOISE", user)
    environment = {**starter().environment, **asked}
    begin = replace(starter(), defaults={"NOISE": "1"}, environment=environment)
    assert environment_of(order_of(begin, LaunchId()), os.environ)["NOISE"] == found


def test_a_member_has_its_index_and_the_addresses_of_all(bundle: Bundle) -> None:
    members = LocalTransport(bundle).cluster_members(Cluster(processes=4))
    assert [member.index for member in members] == [0, 1, 2, 3]
    assert len({member.addresses for member in members}) == 1
    assert len(set(members[2].addresses)) == 4


def asked(framework: str, packages: tuple[str, ...] = (), **values: str) -> Interpreter:
    """The answer of this test's own interpreter for a `framework` of any name."""
    starter = Starter(python=sys.executable, framework=framework, environment=values)
    found = interpreter(starter, packages)
    assert found is not None
    return found


def test_what_is_missing_is_named_and_what_is_there_is_found() -> None:
    found = asked("no_such_framework")
    assert found.missing[0] == "no_such_framework"
    assert (found.path, found.version) == ("", "")
    assert found.python.split(".")[:2] == [str(part) for part in sys.version_info[:2]]


def test_a_package_says_its_file_and_its_version() -> None:
    found = asked("packaging", ("no-such-package", "packaging"))
    assert found.path == str(Path(packaging.__file__).parent)
    assert found.version[0].isdigit()
    assert "packaging" not in found.missing


def test_a_package_in_place_of_the_installed_one_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging" / "__init__.py").write_text("raise ImportError")
    found = asked("packaging", ("packaging",), PYTHONPATH=str(tmp_path))
    assert found.path == str(tmp_path / "packaging")
    assert found.version == ""


def test_what_lies_in_the_current_folder_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert "elsewhere" in asked("elsewhere").missing


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("/bin/false", "/bin/false does not run as Python: it said nothing"),
        ("/bin/echo", "does not run"),
    ],
)
def test_what_is_no_python_is_refused_with_its_last_words(program: str, said: str) -> None:
    with pytest.raises(ProbeFailed, match=said):
        interpreter(Starter(python=program, framework="jax"), ("jax",))


@pytest.fixture
def own_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(storage.MACHINE, str(tmp_path))


def test_where_the_machine_cannot_be_locked_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(storage.MACHINE, str(tmp_path / "missing" / "machine"))
    with pytest.raises(BusyError, match=r"the machine cannot be locked: .*missing/machine\.lock"):
        alone(0).__enter__()


def failed(
    exit_code: int | None, *, log: str = "", oom_kills: int = 0, reason: str = "", pids: int = 0
) -> Failure:
    ended = Ended(
        exit_code=exit_code,
        log=log,
        oom_kills=oom_kills,
        waited_s=1.5,
        reason=reason,
        pids_max=pids or None,
    )
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
    found = failed(exit_code, log="last words")
    assert found.kind is kind
    assert found.message == f"{message} while measuring a case"
    assert (found.launch.text, found.exit_code, found.log) == ("2.fake", exit_code, "last words")


def test_why_a_worker_ended_is_told_by_its_log_and_by_the_limit_that_it_reached() -> None:
    why = "LLVM ERROR: pthread_create failed"
    assert failed(-signal.SIGABRT, reason=why, pids=30).message == (
        "the worker died of SIGABRT while measuring a case; pids.max (30 processes and threads) "
        f"was reached: {why}"
    )
    hung = failed(None, pids=30).message
    assert hung.endswith("while measuring a case; pids.max (30 processes and threads) was reached")
    killed = failed(-signal.SIGKILL, reason=why, pids=30).message
    assert killed == "the worker was killed (SIGKILL) while measuring a case"


def test_a_kill_while_the_kernel_counts_one_for_memory_is_out_of_memory() -> None:
    found = failed(-signal.SIGKILL, oom_kills=1)
    assert found.kind is FailureKind.OUT_OF_MEMORY
    assert found.found is FoundBy.KILLED


@pytest.mark.parametrize(
    "words", ["std::bad_alloc", "Out of memory", "ran out of memory", "Cannot allocate memory"]
)
def test_a_crash_after_last_words_of_memory_is_out_of_memory(words: str) -> None:
    found = failed(-signal.SIGABRT, log=f"terminate called: {words}")
    assert found.kind is FailureKind.OUT_OF_MEMORY
    assert found.found is FoundBy.RAISED


def test_words_of_memory_do_not_turn_a_hang_or_a_clean_exit_into_out_of_memory() -> None:
    assert failed(None, log="Out of memory").kind is FailureKind.TIMEOUT
    assert failed(0, log="Out of memory").kind is FailureKind.CRASHED


def test_the_kernels_count_is_read_and_is_0_where_there_is_none(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    assert oom_kill_count(vmstat) == 0
    vmstat.write_text("pgfault 12\noom_kill 7\nthp 3\n")
    assert oom_kill_count(vmstat) == 7
    vmstat.write_text("pgfault 12\n")
    assert oom_kill_count(vmstat) == 0


def test_the_end_of_a_log_begins_at_the_request(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert log_text(log, 0) == ""
    log.write_bytes(b"before\nafter \xff\n")
    assert log_text(log, 7) == "after \N{REPLACEMENT CHARACTER}"


def test_of_a_log_that_fills_the_disk_only_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.seek(2**33)
        file.write(b"end")
    with bounded():
        assert log_text(log, 0).endswith("end")

"""Run the processes of a study: busbw's commands, and groups of processes that train together."""

import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from studies.report import ROOT

# Environment variables of the user that would change a session, or write its results elsewhere.
_REMOVED_VARIABLES = ("BUSBW_HISTORY", "CI", "PYTEST_ADDOPTS")
_TIMEOUT_S, _GRACE_S = 300.0, 20.0
_SHOWN_LINES = 15


class StudyError(Exception):
    """A study that has no results. The message says why."""


def run_module(*arguments: str, accepted_exit_codes: Sequence[int] = (0,)) -> str:
    """Run `python -m` with these arguments in the repository; return its standard output.

    Raises StudyError if the exit code is not in `accepted_exit_codes`, or if the command takes too
    long.
    """
    command = " ".join(["python -m", *arguments])
    environment = {
        name: text for name, text in os.environ.items() if name not in _REMOVED_VARIABLES
    }
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise StudyError(f"`{command}` took longer than {_TIMEOUT_S:.0f} s") from error
    finally:
        _end_command(process)
    if process.returncode not in accepted_exit_codes:
        code, end = process.returncode, _last_lines(output + errors)
        raise StudyError(f"`{command}` ended with exit code {code}:\n{end}")
    return output


def _end_command(process: subprocess.Popen[str]) -> None:
    """End a command and its workers as Ctrl-C does; kill them if they take too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A process of a group, which calls `function(*arguments)`.

    `environment` are additional environment variables. If `is_server`, the function never returns,
    and the process is killed when the other members have returned.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_server: bool = False


def preload_modules(*modules: str) -> None:
    """Let the processes of groups be forked from a process that has imported these modules.

    Otherwise each process would import TensorFlow by itself, which takes six seconds.
    """
    # A process with threads of OpenBLAS could not be forked. TensorFlow has threads of its own.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(modules))


def run_group(members: Sequence[GroupMember]) -> list[Any]:
    """Run all members at the same time; return the result of each member, None for a server.

    The results must be values of JSON. All processes have ended when this function returns or
    raises. Raises StudyError, with the end of the output, if a member fails or takes too long.
    """
    context = multiprocessing.get_context("forkserver")
    with (
        tempfile.TemporaryDirectory(prefix="busbw-study-") as folder,
        contextlib.ExitStack() as stack,
    ):
        paths = [Path(folder) / str(index) for index in range(len(members))]
        processes = [
            stack.enter_context(_running_process(context, member, path))
            for member, path in zip(members, paths, strict=True)
        ]
        _wait_for_members(processes, members, paths, time.monotonic() + _TIMEOUT_S)
        return [
            None if member.is_server else json.loads(path.read_text())
            for member, path in zip(members, paths, strict=True)
        ]


@contextlib.contextmanager
def _running_process(
    context: ForkServerContext, member: GroupMember, path: Path
) -> Iterator[ForkServerProcess]:
    """Run a member in a new process, and kill the process at the end.

    The process writes the member's result to `path`.
    """
    _log_path(path).touch()
    process = context.Process(target=_run_member, args=(member, path), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _run_member(member: GroupMember, path: Path) -> None:
    """Run `member` in this process; write its result to `path`, and its output to a log."""
    threading.Thread(target=_end_with_study, daemon=True).start()
    with _log_path(path).open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    os.environ.update(member.environment)
    # TensorFlow removes its temporary files at the normal end of a process, which this process
    # does not have.
    tempfile.tempdir = str(path.parent)
    result = member.function(*member.arguments)
    path.write_text(json.dumps(result))
    # TensorFlow's servers cannot be shut down, and a normal exit waits for their threads.
    os._exit(0)


def _end_with_study() -> None:
    """Wait until the process of the study ends, and kill this process then.

    A study that is killed cannot end its child processes.
    """
    study = multiprocessing.parent_process()
    assert study is not None
    study.join()
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_for_members(
    processes: Sequence[ForkServerProcess],
    members: Sequence[GroupMember],
    paths: Sequence[Path],
    deadline_s: float,
) -> None:
    """Wait until all members that are not servers have returned.

    `paths` are the files of the members' results, and `deadline_s` is a time of the monotonic
    clock. Raises StudyError if a process fails, or runs after the deadline.
    """
    running = {process.sentinel: index for index, process in enumerate(processes)}
    while any(not members[index].is_server for index in running.values()):
        remaining_s = max(0.0, deadline_s - time.monotonic())
        ended = multiprocessing.connection.wait(list(running), timeout=remaining_s)
        if not ended:
            index = next(index for index in running.values() if not members[index].is_server)
            raise StudyError(
                f"process {index} did not end in time; {_last_log_lines(paths[index])}"
            )
        for sentinel in ended:
            assert isinstance(sentinel, int)
            index = running.pop(sentinel)
            processes[index].join()
            code = processes[index].exitcode
            if code:
                log = _last_log_lines(paths[index])
                raise StudyError(f"process {index} ended with exit code {code}; {log}")


def _log_path(path: Path) -> Path:
    """Return the log of the member whose result is written to `path`."""
    return path.with_suffix(".log")


def _last_log_lines(path: Path) -> str:
    return f"its last lines:\n{_last_lines(_log_path(path).read_text(errors='replace'))}"


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_SHOWN_LINES:])

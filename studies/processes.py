"""The processes of a study: busbw's commands, and groups of processes that train together."""

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

# Settings of the user that would change what a session measures, or keep its results.
_LEFT_OUT = ("BUSBW_HISTORY", "CI", "PYTEST_ADDOPTS")
_TIMEOUT_S, _GRACE_S = 300.0, 20.0
_SHOWN_LINES = 15


class StudyError(Exception):
    """A study cannot give its results; the text says why."""


def run_module(*arguments: str, accepted: Sequence[int] = (0,)) -> str:
    """Run `python -m` with these arguments in the repository; return its standard output.

    Raise StudyError if the exit code is not in `accepted`, or the command takes too long.
    """
    command = " ".join(["python -m", *arguments])
    environment = {name: text for name, text in os.environ.items() if name not in _LEFT_OUT}
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
        _interrupt(process)
    if process.returncode not in accepted:
        code, end = process.returncode, _last_lines(output + errors)
        raise StudyError(f"`{command}` ended with exit code {code}:\n{end}")
    return output


def _interrupt(process: subprocess.Popen[str]) -> None:
    """End the command and its workers as Ctrl-C does; kill it if it takes too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a group: `function(*arguments)` with additional environment variables.

    A server never returns: it is killed when the other members have returned.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_server: bool = False


def preload(*modules: str) -> None:
    """Import these modules once: the processes of groups are forked from the one that has them.

    TensorFlow alone takes six seconds to import, which a group would spend in every process.
    """
    # More threads could not be forked, and TensorFlow has its own.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(modules))


def run_group(members: Sequence[Member]) -> list[Any]:
    """Run all members at the same time; return what each returned, None for servers.

    Results must be JSON. All processes have ended when this function returns or raises. Raise
    StudyError, with the end of the output, if a member fails or takes too long.
    """
    context = multiprocessing.get_context("forkserver")
    with (
        tempfile.TemporaryDirectory(prefix="busbw-study-") as folder,
        contextlib.ExitStack() as stack,
    ):
        paths = [Path(folder) / str(index) for index in range(len(members))]
        processes = [
            stack.enter_context(_running(context, member, path))
            for member, path in zip(members, paths, strict=True)
        ]
        _wait(processes, members, paths, time.monotonic() + _TIMEOUT_S)
        return [
            None if member.is_server else json.loads(path.read_text())
            for member, path in zip(members, paths, strict=True)
        ]


@contextlib.contextmanager
def _running(context: ForkServerContext, member: Member, path: Path) -> Iterator[ForkServerProcess]:
    _log(path).touch()
    process = context.Process(target=_run, args=(member, path), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _run(member: Member, path: Path) -> None:
    """Run one member in its process; write its result to `path` and its output to a log."""
    threading.Thread(target=_end_with_study, daemon=True).start()
    with _log(path).open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    os.environ.update(member.environment)
    result = member.function(*member.arguments)
    path.write_text(json.dumps(result))
    # TensorFlow's servers cannot be shut down: at a normal end Python waits for their threads.
    os._exit(0)


def _end_with_study() -> None:
    """Kill this process when the study was killed, without a chance to end its children."""
    study = multiprocessing.parent_process()
    assert study is not None
    study.join()
    os.kill(os.getpid(), signal.SIGKILL)


def _wait(
    processes: Sequence[ForkServerProcess],
    members: Sequence[Member],
    paths: Sequence[Path],
    deadline_s: float,
) -> None:
    """Wait until all members but the servers have returned."""
    running = {process.sentinel: index for index, process in enumerate(processes)}
    while any(not members[index].is_server for index in running.values()):
        remaining_s = max(0.0, deadline_s - time.monotonic())
        ended = multiprocessing.connection.wait(list(running), timeout=remaining_s)
        if not ended:
            index = next(index for index in running.values() if not members[index].is_server)
            raise StudyError(f"process {index} did not end in time; {_end_of_log(paths[index])}")
        for sentinel in ended:
            assert isinstance(sentinel, int)
            index = running.pop(sentinel)
            processes[index].join()
            code = processes[index].exitcode
            if code:
                log = _end_of_log(paths[index])
                raise StudyError(f"process {index} ended with exit code {code}; {log}")


def _log(path: Path) -> Path:
    return path.with_suffix(".log")


def _end_of_log(path: Path) -> str:
    return f"its last lines:\n{_last_lines(_log(path).read_text(errors='replace'))}"


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_SHOWN_LINES:])

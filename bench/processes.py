"""Start sessions of `pytest perf/` and processes of a benchmark, and read their results."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from busbw.model.variables import with_huge_pages

ROOT = Path(__file__).parents[1]
_POLL_S = 0.1


class BenchError(Exception):
    """A benchmark that failed, with the reason as its message, and the `result` until then."""

    def __init__(self, message: str, result: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = result or {}


def session_environment() -> dict[str, str]:
    """Return the environment variables of this process that do not change a session of pytest."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CI", "PYTEST_", "BUSBW_HISTORY"))
    }


def run_session(
    folder: Path,
    name: str,
    *options: str,
    timeout_s: float = 3600.0,
    exit_codes: Collection[int] = (0,),
    baselines: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run `pytest perf/`, and return its results with its wall time in seconds as `wall_s`.

    Args:
        folder: The folder for the results and the output.
        name: The name of the files in `folder`.
        options: Options of the session.
        timeout_s: The session is killed after this time.
        exit_codes: The exit codes with which the session succeeds.
        baselines: The folder of baselines; None for a folder in `folder`.
        variables: Environment variables to set.

    Raises:
        BenchError: The session takes too long, or ends with another exit code.

    """
    results, baselines = folder / f"{name}.json", baselines or folder / "baselines"
    results.unlink(missing_ok=True)
    baselines.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pytest", "perf/", "-q", "-p", "no:cacheprovider"]
    command += [f"--results={results}", f"--baselines={baselines}", *options]
    begin_s = time.monotonic()
    # If pytest is killed at the timeout, its workers end by themselves.
    run_commands(
        [command],
        folder,
        name,
        timeout_s,
        session_environment() | dict(variables or {}),
        exit_codes,
    )
    return {**json.loads(results.read_text()), "wall_s": time.monotonic() - begin_s}


def run_members(
    requests: Sequence[Mapping[str, Any]],
    folder: Path,
    timeout_s: float = 3600.0,
    variables: Mapping[str, str] | None = None,
) -> list[Any]:
    """Run a process of `bench.member` for each request at the same time; return their results.

    The output goes into files in `folder`, and `variables` are environment variables to set. Raises
    BenchError if a process fails, or takes longer than `timeout_s` seconds.
    """
    command = [sys.executable, "-m", "bench.member"]
    outputs = run_commands(
        [[*command, json.dumps({"parent": os.getpid(), **request})] for request in requests],
        folder,
        requests[0]["task"],
        timeout_s,
        with_huge_pages({**os.environ, **(variables or {})}),
    )
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def run_commands(
    commands: Sequence[Sequence[str]],
    folder: Path,
    name: str,
    timeout_s: float,
    env: Mapping[str, str],
    exit_codes: Collection[int] = (0,),
) -> list[str]:
    """Run commands at the same time, and return the stdout of each command.

    The stdout of the first command goes into the file ``NAME-0.txt`` in `folder`, and its stderr
    into ``NAME-0.log``; the files of the other commands are numbered. `env` are all environment
    variables of the commands. Raises BenchError if a command ends with an exit code that is not in
    `exit_codes`, or after `timeout_s` seconds. All commands have ended at the end.
    """
    end_s, processes = time.monotonic() + timeout_s, list[subprocess.Popen[bytes]]()
    paths = [folder / f"{name}-{number}.txt" for number in range(len(commands))]
    with contextlib.ExitStack() as stack:
        for command, path in zip(commands, paths):
            output = stack.enter_context(path.open("w"))
            log = stack.enter_context(path.with_suffix(".log").open("w"))
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=log, env=env, cwd=ROOT
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        while True:
            codes = [process.poll() for process in processes]
            if None not in codes or any(codes) or time.monotonic() > end_s:
                break
            time.sleep(_POLL_S)
    # If some processes did not end, a process that failed is the cause, so it is reported first.
    for code, path in sorted(zip(codes, paths), key=lambda end: end[0] is None):
        if code not in exit_codes:
            end = f"did not end in {timeout_s:.0f} s" if code is None else f"ended with {code}"
            raise BenchError(f"{path.stem} {end}: {_first_error_line(path)}")
    return [path.read_text() for path in paths]


def _first_error_line(path: Path) -> str:
    """Return the first line with an error of pytest in the outputs, or their last line.

    `path` is the file with the stdout; the file with the stderr is beside it.
    """
    texts = [file.read_text(errors="replace") for file in (path, path.with_suffix(".log"))]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "FAILED", "E "))]
    return next(iter([*errors, *lines[-1:]]), "it wrote nothing")[:400]

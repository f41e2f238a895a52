"""Start sessions of `pytest perf/` and processes of a benchmark, and read their results."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_POLL_S = 0.1


class BenchError(Exception):
    """Why a benchmark failed; `result` is what it had until then."""

    def __init__(self, message: str, result: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = result or {}


def environment() -> dict[str, str]:
    """Return the variables of this process without those that change a session of pytest."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CI", "PYTEST_", "BUSBW_HISTORY"))
    }


def session(
    folder: Path,
    name: str,
    *options: str,
    timeout_s: float = 3600.0,
    exit_codes: Sequence[int] = (0,),
    baselines: Path | None = None,
) -> dict[str, Any]:
    """Run `pytest perf/` and return its results, and its wall time as `wall_s`.

    Results, output and, unless given, baselines are written below `folder`. Raises BenchError at
    the timeout, or if the exit code is not among `exit_codes`.
    """
    results, output = folder / f"{name}.json", folder / f"{name}.txt"
    results.unlink(missing_ok=True)
    baselines = baselines or folder / "baselines"
    baselines.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pytest", "perf/", "-q", "-p", "no:cacheprovider"]
    command += [f"--results={results}", f"--baselines={baselines}", *options]
    begin_s = time.monotonic()
    end = f"did not end in {timeout_s:.0f} s"
    # If pytest is killed at the timeout, its workers end by themselves.
    with output.open("w") as log, contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(),
            cwd=ROOT,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode in exit_codes and results.exists():
            return {**json.loads(results.read_text()), "wall_s": time.monotonic() - begin_s}
        end = f"ended with exit code {done.returncode}"
    raise BenchError(f"the session {end}: {_reason(output.read_text(errors='replace'))}")


def answers(
    commands: Sequence[Sequence[str]],
    folder: Path,
    name: str,
    *,
    timeout_s: float = 3600.0,
    env: Mapping[str, str] | None = None,
) -> list[Any]:
    """Run commands at the same time; return the JSON document in each one's last line of output.

    Their logs are ``NAME-0.txt`` and so on. Raises BenchError as soon as one fails, or at the
    timeout. None of them is left running.
    """
    end_s, processes = time.monotonic() + timeout_s, list[subprocess.Popen[bytes]]()
    paths = [folder / f"{name}-{number}.json" for number in range(len(commands))]
    with contextlib.ExitStack() as stack:
        for command, path in zip(commands, paths):
            output = stack.enter_context(path.open("w"))
            log = stack.enter_context(path.with_suffix(".txt").open("w"))
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=log, env=env, cwd=ROOT
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        while True:
            ends = [process.poll() for process in processes]
            if None not in ends or any(ends) or time.monotonic() > end_s:
                break
            time.sleep(_POLL_S)
    # A process that failed is the cause if others did not end.
    for code, path in sorted(zip(ends, paths), key=lambda end: end[0] is None):
        if code != 0:
            end = f"gave no answer in {timeout_s:.0f} s" if code is None else f"ended with {code}"
            text = path.with_suffix(".txt").read_text(errors="replace")
            raise BenchError(f"{path.stem} {end}: {_reason(text)}")
    return [json.loads(path.read_text().splitlines()[-1]) for path in paths]


def _reason(text: str) -> str:
    """Return the first line with an error of pytest, or the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "FAILED", "E "))]
    return next(iter([*errors, *lines[-1:]]), "it wrote nothing")[:400]

"""A folder in which sessions run apart from all others: their processes, files and traces."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from busbw import locks
from busbw.baselines.document import TIMED, BaselineError, read
from busbw.driver.bundle import Bundle
from busbw.history.files import HistoryError, read_all

from ..processes import ROOT, environment

LAUNCHES = 2
PAYLOADS = ("1K", "2K", "4K", "8K", "16K", "32K", "64K")
# The payload of the first session, whose baseline and history every other session must keep.
_STORED = "128K"


class Sandbox:
    """A folder with the tests to run, their baselines and history, and one for temporary files."""

    def __init__(self, path: Path, framework: str = "jax", options: Sequence[str] = ()) -> None:
        self.path, self.framework, self._options = path, framework, options
        self.temporary, self._before = path / "temporary", path / "before"
        self.baselines, self.history = path / "baselines", path / "history"
        self._results, self._log = path / "results.json", path / "output.txt"

    def prepare(self) -> None:
        """Create the folder, with a baseline of another payload. Raises SystemExit."""
        self.temporary.mkdir()
        shutil.copytree(ROOT / "perf", self.path / "perf")
        shutil.copy(ROOT / "conftest.py", self.path)
        with self.begin(f"--payloads={_STORED}") as first:
            if first.wait() != 0:
                raise SystemExit(f"the first session failed:\n{self.output}")
        for folder in (self.baselines, self.history):
            shutil.copytree(folder, self._before / folder.name)

    def reset(self) -> None:
        """Restore baselines and history, and remove the results of the last session."""
        for folder in (self.baselines, self.history):
            shutil.rmtree(folder)
            shutil.copytree(self._before / folder.name, folder)
        self._results.unlink(missing_ok=True)

    def begin(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a session that measures and stores; `options` come last."""
        command = [sys.executable, "-P", "-m", "pytest", "-p", "bench.faults.short_starts", "perf"]
        command += [f"--frameworks={self.framework}", f"--payloads={','.join(PAYLOADS)}"]
        # The clock of dispatches measures even where the machine is busy.
        command += [f"--launches={LAUNCHES}", "--case-timeout=10", "--clock=dispatch"]
        command += ["--update-baselines=new", f"--history={self.history}"]
        command += [f"--results={self._results}", "-p", "no:cacheprovider", "--color=no"]
        variables = {
            "TMPDIR": str(self.temporary),
            locks.MACHINE: str(self.path),
            "PYTHONUNBUFFERED": "1",
            "BUSBW_FAKE": json.dumps({"clocks": ["dispatch"]}),
        }
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [*command, *self._options, *options],
                cwd=self.path,
                env=environment() | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def results(self) -> Any:
        """Return the results of the last session, None if it wrote none."""
        return json.loads(self._results.read_text()) if self._results.exists() else None

    def process(self, *words: str) -> int | None:
        """Return the worker or agent of the session that was started with these words."""
        # Workers name the folder in their command line, agents have it as TMPDIR.
        for process, command in _processes(f"{self.temporary}/").items():
            if set(words) <= set(command):
                return process
        return None

    def kill_processes(self) -> list[int]:
        """Kill the processes of the session that still run some seconds later, and return them."""
        end_s = time.monotonic() + 5.0
        while (processes := list(_processes(str(self.path)))) and time.monotonic() < end_s:
            time.sleep(0.05)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return processes

    def folders(self) -> list[str]:
        """Return the names in the folder for temporary files."""
        return sorted(path.name for path in self.temporary.iterdir())

    def traces(self) -> list[str]:
        """Return what is left once another session has begun and ended: folders and the lock."""
        with mock.patch.object(tempfile, "tempdir", str(self.temporary)):
            Bundle().remove()
        traces = [f"{name} in TMPDIR" for name in self.folders()]
        try:
            with mock.patch.dict(os.environ, {locks.MACHINE: str(self.path)}), locks.machine(0):
                return traces
        except locks.Busy as error:
            return [*traces, f"the machine's lock ({error})"]

    def damage(self, *, stored: int, ended: bool) -> list[str]:
        """Return what is wrong with baselines and history: lines lost or incomplete, new files.

        A session stores `stored` baselines; a session that was `ended` may have stored none.
        """
        after, before = _files(self.baselines), _files(self._before / self.baselines.name)
        problems = [f"{name} is new or gone" for name in sorted(set(after) ^ set(before))]
        for name in sorted(set(after) & set(before)):
            is_unchanged = after[name].read_bytes() == before[name].read_bytes()
            if is_unchanged and (ended or not name.endswith(".json")):
                continue
            try:
                old, new = (read(TIMED, files[name]).baselines for files in (before, after))
            except BaselineError as error:
                problems.append(str(error))
                continue
            if len(new) != len(old) + stored or not all(baseline in new for baseline in old):
                problems.append(f"{name} has {len(new)} entries, had {len(old)}, {stored} are new")
        return problems + self._history_damage(ended=ended)

    def _history_damage(self, *, ended: bool) -> list[str]:
        try:
            # There is one file, unless a year ended meanwhile.
            (lines,) = read_all(self.history).values()
        except HistoryError as error:
            return [str(error)]
        old, new = (
            b"".join(path.read_bytes() for path in _files(folder).values())
            for folder in (self._before / self.history.name, self.history)
        )
        problems = [] if new.startswith(old) else ["the history has lost lines"]
        count = len(lines) - old.count(b"\n")
        if count != len(PAYLOADS) and not (ended and count == 0):
            problems.append(
                f"the history has {count} lines of the session, expected {len(PAYLOADS)}"
            )
        return problems


def _processes(text: str) -> dict[int, list[str]]:
    """Return the command of each process that has `text` in its command line or environment."""
    processes = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_text(errors="replace")
            if text in command + (path / "environ").read_text(errors="replace"):
                processes[int(path.name)] = command.split("\0")
    return processes


def _files(folder: Path) -> dict[str, Path]:
    return {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}

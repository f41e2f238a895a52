"""The folder that sessions run in, apart from all others on the machine.

How a session is begun there, which of its processes run, what it wrote, and what is left of it.
"""

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

ROOT = Path(__file__).parents[1]
LAUNCHES = 2
PAYLOADS = ("1K", "2K", "4K", "8K", "16K", "32K", "64K")
# Is in the file that each session adds to.
_STORED = "128K"


class Ground:
    """A folder with the tests to run, their baselines and history, and one for temporary files."""

    def __init__(self, path: Path, framework: str = "jax", options: Sequence[str] = ()) -> None:
        self.path, self.framework, self._options = path, framework, options
        self.temporary, self._before = path / "temporary", path / "before"
        self.baselines, self.history = path / "baselines", path / "history"
        self._results, self._log = path / "results.json", path / "output.txt"

    def prepare(self) -> None:
        """Lay it out, with a baseline of another payload. Raises SystemExit."""
        self.temporary.mkdir()
        shutil.copytree(ROOT / "perf", self.path / "perf")
        shutil.copy(ROOT / "conftest.py", self.path)
        with self.begin(f"--payloads={_STORED}") as first:
            if first.wait() != 0:
                raise SystemExit(f"the first session failed:\n{self.output}")
        for folder in (self.baselines, self.history):
            shutil.copytree(folder, self._before / folder.name)

    def reset(self) -> None:
        """Baselines and history as they were, and nothing of the session before."""
        for folder in (self.baselines, self.history):
            shutil.rmtree(folder)
            shutil.copytree(self._before / folder.name, folder)
        self._results.unlink(missing_ok=True)

    def begin(self, *options: str) -> subprocess.Popen[bytes]:
        """A session that measures and stores; `options` come last."""
        command = [sys.executable, "-P", str(ROOT / "kills" / "hasty.py"), "perf"]
        command += [f"--frameworks={self.framework}", f"--payloads={','.join(PAYLOADS)}"]
        # Calls are timed, not slopes: how busy the machine is, is no matter here.
        command += [f"--launches={LAUNCHES}", "--case-timeout=10", "--clock=dispatch"]
        command += ["--update-baselines=new", f"--history={self.history}"]
        command += [f"--results={self._results}", "-p", "no:cacheprovider", "--color=no"]
        own = {
            "TMPDIR": str(self.temporary),
            locks.MACHINE: str(self.path),
            "PYTHONUNBUFFERED": "1",
            "BUSBW_FAKE": json.dumps({"clocks": ["dispatch"]}),
        }
        # Nothing of a session that this one is part of.
        around = {n: text for n, text in os.environ.items() if not n.startswith(("CI", "PYTEST_"))}
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [*command, *self._options, *options],
                cwd=self.path,
                env=around | own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What the last session printed."""
        return self._log.read_text(errors="replace")

    @property
    def results(self) -> Any:
        """What the last session wrote, None if it wrote nothing."""
        return json.loads(self._results.read_text()) if self._results.exists() else None

    def process(self, *words: str) -> int | None:
        """The process of the session that was started with these words: a worker or an agent."""
        for process, (command, environment) in _processes().items():
            # Workers name their folder in that of the session, agents have it as TMPDIR.
            is_ours = f"{self.temporary}/" in command + environment
            if is_ours and set(words) <= set(command.split("\0")):
                return process
        return None

    def processes(self) -> list[int]:
        """Who still runs, some seconds later, of those that a session started; they are killed."""
        end_s = time.monotonic() + 5.0
        while (found := self._ours()) and time.monotonic() < end_s:
            time.sleep(0.05)
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return found

    def _ours(self) -> list[int]:
        """By command line or environment, which all that a worker starts gets from it."""
        own = str(self.path)
        return [one for one, texts in _processes().items() if own in "".join(texts)]

    def folders(self) -> list[str]:
        """What is in the folder for temporary files."""
        return sorted(path.name for path in self.temporary.iterdir())

    def folders_after_the_next(self) -> list[str]:
        """The same once another session has begun and ended."""
        with mock.patch.object(tempfile, "tempdir", str(self.temporary)):
            Bundle().remove()
        return self.folders()

    def held(self) -> list[str]:
        """The machine's lock, if somebody still holds it."""
        try:
            with mock.patch.dict(os.environ, {locks.MACHINE: str(self.path)}), locks.machine(0):
                return []
        except locks.Busy as error:
            return [f"the machine's lock ({error})"]

    def damage(self, *, stored: int, ended: bool) -> list[str]:
        """What is wrong with baselines and history: a line lost, a part of a session, a new file.

        A session stores `stored` baselines; one that was `ended` perhaps none of them.
        """
        here, before = _files(self.baselines), _files(self._before / self.baselines.name)
        wrong = [f"{name} is new or gone" for name in sorted(set(here) ^ set(before))]
        for name in sorted(set(here) & set(before)):
            is_unchanged = here[name].read_bytes() == before[name].read_bytes()
            if is_unchanged and (ended or not name.endswith(".json")):
                continue
            try:
                old, now = (read(TIMED, one[name]).baselines for one in (before, here))
            except BaselineError as error:
                wrong.append(str(error))
                continue
            if len(now) != len(old) + stored or not all(entry in now for entry in old):
                wrong.append(f"{name} has {len(now)} entries, had {len(old)}, {stored} are new")
        return wrong + self._history_damage(ended=ended)

    def _history_damage(self, *, ended: bool) -> list[str]:
        try:
            # One file, unless the year has ended since.
            (lines,) = read_all(self.history).values()
        except HistoryError as error:
            return [str(error)]
        old = _bytes(self._before / self.history.name)
        wrong = [] if _bytes(self.history).startswith(old) else ["the history has lost lines"]
        own = len(lines) - old.count(b"\n")
        if own != len(PAYLOADS) and not (ended and own == 0):
            wrong.append(f"the history has {own} lines of the session, expected {len(PAYLOADS)}")
        return wrong


def _processes() -> dict[int, tuple[str, str]]:
    """Command line and environment of all processes."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            texts = [(path / name).read_text(errors="replace") for name in ("cmdline", "environ")]
            found[int(path.name)] = (texts[0], texts[1])
    return found


def _files(folder: Path) -> dict[str, Path]:
    return {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}


def _bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in _files(folder).values())

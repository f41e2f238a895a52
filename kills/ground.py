"""The folder that sessions run in, apart from all others on the machine; how one is begun."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw import locks

from .hasty import ASKED
from .place import Here, Place

ROOT = Path(__file__).parents[1]
LAUNCHES = 2
PAYLOADS = ("1K", "2K", "4K", "8K", "16K", "32K", "64K")
CASES = LAUNCHES * len(PAYLOADS)
CASE_TIMEOUT_S = 10.0
# Is in the file that each session adds to.
_STORED = "128K"


@dataclass(frozen=True)
class Ground:
    """A folder with the tests to run, their baselines and history, and one for temporary files."""

    path: Path
    framework: str = "jax"
    options: tuple[str, ...] = ()
    processes: int = 1
    place: Place = field(default_factory=Here)

    @property
    def temporary(self) -> Path:
        """What is TMPDIR to a session."""
        return self.path / "temporary"

    @property
    def baselines(self) -> Path:
        """Where a session finds and stores baselines."""
        return self.path / "baselines"

    @property
    def stored(self) -> Path:
        """Baselines as they are before each session."""
        return self.path / "stored"

    @property
    def history(self) -> Path:
        """What a session appends to."""
        return self.path / "history"

    @property
    def appended(self) -> Path:
        """The history as it is before each session."""
        return self.path / "appended"

    def prepare(self) -> None:
        """Lay it out, with a baseline of another payload. Raises SystemExit."""
        self.temporary.mkdir()
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "perf", self.path / "perf", ignore=ignored)
        shutil.copy(ROOT / "conftest.py", self.path)
        with self.begin(f"--payloads={_STORED}") as first:
            if first.wait() != 0:
                raise SystemExit(f"the first session failed:\n{self.output}")
        self.baselines.rename(self.stored)
        self.history.rename(self.appended)

    def reset(self) -> None:
        """Baselines and history as they were, and nothing of the session before."""
        for before, folder in ((self.stored, self.baselines), (self.appended, self.history)):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(before, folder)
        self._results.unlink(missing_ok=True)
        self._asked.unlink(missing_ok=True)

    def begin(self, *options: str) -> subprocess.Popen[bytes]:
        """A session that measures and stores; `options` come last."""
        command = [sys.executable, "-P", str(ROOT / "kills" / "hasty.py"), "perf"]
        command += [f"--frameworks={self.framework}", f"--payloads={','.join(PAYLOADS)}"]
        command += [f"--launches={LAUNCHES}", f"--case-timeout={CASE_TIMEOUT_S:g}"]
        # Calls are timed, not slopes: how busy the machine is, is no matter here.
        command += ["--clock=dispatch", "--update-baselines=new", f"--history={self.history}"]
        command += [f"--results={self._results}"]
        command += ["-p", "no:cacheprovider", "--color=no", *self.place.options]
        command += [*self.options, *options]
        with self._log.open("wb") as log:
            return self.place.start(
                command,
                cwd=self.path,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def environment(self) -> dict[str, str]:
        """A session's: a machine of its own, and nothing of a session that this one is part of."""
        own = {
            "TMPDIR": str(self.temporary),
            locks.MACHINE: str(self.path),
            "PYTHONUNBUFFERED": "1",
            ASKED: str(self._asked),
            "BUSBW_FAKE": json.dumps({"clocks": ["dispatch"]}),
        }
        not_ours = ("CI", "PYTEST_")
        return {n: text for n, text in os.environ.items() if not n.startswith(not_ours)} | own

    @property
    def output(self) -> str:
        """What the last session printed."""
        return self._log.read_text(errors="replace")

    @property
    def results(self) -> dict[str, Any] | None:
        """What the last session wrote, None if it wrote nothing."""
        if not self._results.exists():
            return None
        found: dict[str, Any] = json.loads(self._results.read_text())
        return found

    def workers(self) -> dict[str, int]:
        """The running workers of a session: process ids by launch, such as ``1.jax``."""
        found = {}
        for process, words in commands().items():
            if any(word.startswith(f"{self.temporary}/") for word in words):
                launch = next((w for w in words if w.startswith("--launch=")), "")
                found[launch.removeprefix("--launch=")] = process
        return found

    def launch(self, number: int, member: int) -> str:
        """What the worker of a launch is called, of a group that of one of its processes."""
        return self._named(f"{number}.{self.framework}", member)

    def probe(self, member: int) -> str:
        """The same of the worker that looks for devices."""
        return self._named("probe", member)

    def _named(self, launch: str, member: int) -> str:
        return launch if self.processes == 1 else f"{launch}.worker{member}"

    def agent(self, rank: int) -> int | None:
        """The process id of the session's agent of that rank; None where there is none."""
        agents = (
            process
            for process, words in commands().items()
            if "agent" in words and f"--rank={rank}" in words
        )
        # They have a folder in that of their session.
        own = f"TMPDIR={self.temporary}/"
        return next((one for one in agents if _begins(environment(one), own)), None)

    def measures(self, launch: str) -> bool:
        """Whether the worker of `launch` was asked to measure a case."""
        return self._asked.exists() and launch in self._asked.read_text().splitlines()

    @property
    def _asked(self) -> Path:
        return self.path / "asked.txt"

    @property
    def _results(self) -> Path:
        return self.path / "results.json"

    @property
    def _log(self) -> Path:
        return self.path / "output.txt"


def _begins(variables: Iterable[str], own: str) -> bool:
    return any(one.startswith(own) for one in variables)


def environment(process: int) -> list[str]:
    """The variables of a process; none if it is gone."""
    try:
        return Path(f"/proc/{process}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def commands() -> dict[int, Sequence[str]]:
    """The command lines of all processes; a zombie has none."""
    found: dict[int, Sequence[str]] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found[int(path.parent.name)] = path.read_text(errors="replace").split("\0")
        except OSError:
            continue
    return found

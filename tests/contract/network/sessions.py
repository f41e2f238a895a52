"""Sessions of busbw on a host of the tests, and what came of them.

Each has a folder of its own for baselines, results and temporary files; it measures as a user's
does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.network.namespaces import Host

ROOT = Path(__file__).parents[3]
PYTEST = (sys.executable, "-m", "pytest", "perf/")
PYTHON_THERE = f"--host-python={sys.executable}"
TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A session that is over: what it printed, and its results if it wrote any."""

    exit_code: int
    text: str
    results: Mapping[str, Any] | None

    @property
    def outcomes(self) -> dict[str, str]:
        assert self.results is not None, self.text
        return {case["id"].rpartition("-")[2]: case["outcome"] for case in self.results["cases"]}

    @property
    def hosts(self) -> int:
        assert self.results is not None, self.text
        count = self.results["environment"]["key"]["hosts"]
        assert isinstance(count, int)
        return count


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where sessions run: a host, and a folder for what they read and write."""

    host: Host
    folder: Path

    def begin(
        self,
        *options: str,
        command: Sequence[str] = PYTEST,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Begin a session on the host; its output is in a file, see `ran`."""
        for name in ("baselines", "temporary"):
            (self.folder / name).mkdir(exist_ok=True)
        self._results.unlink(missing_ok=True)
        words = [*command, f"--baselines={self.folder}/baselines", f"--results={self._results}"]
        words += ["-p", "no:cacheprovider", "--color=no", *options]
        variables = self.environment(environment or {})
        with self._log.open("wb") as log:
            return self.host.start(
                words, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return that of a session: nothing of the pytest that runs these tests, and `more`."""
        return {
            **{name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")},
            "TMPDIR": str(self.folder / "temporary"),
            "PYTHONPATH": str(ROOT),
            **more,
        }

    def ran(self, session: subprocess.Popen[str], timeout_s: float = TIMEOUT_S) -> Ran:
        """Return what came of a session, once it is over; a session that hangs is killed."""
        try:
            exit_code = session.wait(timeout_s)
        except subprocess.TimeoutExpired:
            session.kill()
            session.wait()
            raise AssertionError(f"it did not end:\n{self.text}") from None
        results = json.loads(self._results.read_text()) if self._results.exists() else None
        return Ran(exit_code=exit_code, text=self.text, results=results)

    @property
    def text(self) -> str:
        return self._log.read_text(errors="replace")

    def left(self) -> list[str]:
        """List what is in the folder for temporary files."""
        return sorted(path.name for path in (self.folder / "temporary").iterdir())

    @property
    def _log(self) -> Path:
        return self.folder / "session.log"

    @property
    def _results(self) -> Path:
        return self.folder / "results.json"

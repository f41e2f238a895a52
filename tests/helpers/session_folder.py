"""A private folder with perf/ and conftest.py in which pytest is run, and what came of it.

Every session runs in a process of its own, forked or started; its bundles lie in the folder, and it
waits for no session of another folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.helpers.forked import Forked, Session
from tests.helpers.stored_sessions import Written

ROOT = Path(__file__).parents[2]
STRICT = {"addopts": "--strict-markers --strict-config", "filterwarnings": "error"}
_LAUNCHER = Path(__file__).with_name("unprivileged.py")
FAKE = ("perf", "--frameworks=fake", "--payloads=1M", "--launches=1")
WITHOUT_CACHE = ("-p", "no:cacheprovider")
# Takes longer to import than all the rest of a session.
NOT_NEEDED = ("-p", "no:hypothesispytest")
# A session with a real framework takes two minutes where ten processes share two processors.
TIMEOUT_S = 300
# Samples of a millisecond and more: the floor of 20 us for a difference decides nothing.
SLOW: dict[str, Any] = {"latency_s": 1e-3}
# An accelerator, whose budget is 10 %.
TPU: dict[str, Any] = {**SLOW, "device": "tpu", "device_kind": "TPU v2", "ranks": 8}
# As many payloads as it takes to tell what all cases share.
SEVEN = "--payloads=1K:64K"
HISTORY = "--history=history"

# What pytest prints is no part of it: the limit holds while files are written.
_FULL = """
import resource

import pytest


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes_left}, hard))
    try:
        return (yield)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
"""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One pytest session that is over. `results` is the file of --results, if it was written."""

    exit_code: int
    text: str
    results: dict[str, Any] | None
    junit: ElementTree.Element | None

    @property
    def last_line(self) -> str:
        """The line of pytest that counts outcomes."""
        return next(line for line in reversed(self.text.splitlines()) if " in " in line)

    @property
    def sentence(self) -> str:
        """The one line of a usage error, of busbw or of argparse."""
        (line,) = (line for line in self.text.splitlines() if line.startswith("ERROR: "))
        if line.startswith("ERROR: usage: "):
            return next(line for line in self.text.splitlines() if ": error: " in line)
        return line

    @property
    def document(self) -> dict[str, Any]:
        """The file of --results, which must be there."""
        assert self.results is not None, self.text
        return self.results

    @property
    def cases(self) -> list[dict[str, Any]]:
        cases: list[dict[str, Any]] = self.document["cases"]
        return cases

    @property
    def ids(self) -> dict[str, str]:
        """The outcome of each case by its id."""
        return {case["id"]: case["outcome"] for case in self.cases}

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome of each case by its payload."""
        return {name.rpartition("-")[2]: outcome for name, outcome in self.ids.items()}

    @property
    def tests(self) -> dict[str, ElementTree.Element]:
        """What JUnit has of each test item, by its name."""
        assert self.junit is not None, self.text
        return {case.get("name", ""): case for case in self.junit.iter("testcase")}

    @property
    def failures(self) -> list[str]:
        """What JUnit says of each case that failed; the session's own item is none."""
        cases = [case for name, case in self.tests.items() if name != "session"]
        return [_words(failure) for case in cases for failure in case.iter("failure")]

    @property
    def session_failure(self) -> str:
        """What JUnit says of the session's own failed item."""
        (failure,) = self.tests["session"].iter("failure")
        return _words(failure)

    def properties(self, payload: str = "1M") -> dict[str, str]:
        """Return the JUnit properties of one case."""
        (case,) = (case for name, case in self.tests.items() if name.endswith(f"-{payload}]"))
        return {
            element.get("name", ""): element.get("value", "") for element in case.iter("property")
        }

    def case(self, payload: str = "1M") -> dict[str, Any]:
        """Return what --results says of the only case with `payload`."""
        (match,) = (case for case in self.cases if case["id"].endswith(f"-{payload}"))
        return match


def _words(failure: ElementTree.Element) -> str:
    return (failure.get("message") or "") + (failure.text or "")


class Folder:
    """Where sessions run. `ini` and `script` hold for the sessions that follow."""

    def __init__(
        self,
        pytester: pytest.Pytester,
        monkeypatch: pytest.MonkeyPatch,
        *,
        forked: Forked,
        written: Written,
    ) -> None:
        self.pytester = pytester
        self._forked, self._written = forked, written
        self.environment = monkeypatch
        self.path = pytester.path
        self.temporary = self.path / "temporary"
        self.temporary.mkdir()
        shutil.copytree(ROOT / "perf", self.path / "perf", ignore=shutil.ignore_patterns("__*"))
        shutil.copy(ROOT / "conftest.py", self.path)
        self._begun: list[subprocess.Popen[bytes]] = []
        self._before: tuple[str, ...] = ()
        # A session in here must not take itself for a part of the session that runs this test.
        for name in ("CI", "BUSBW_FAKE", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TMPDIR", str(self.temporary))
        monkeypatch.setenv("BUSBW_MACHINE", str(self.path))
        self.ini({})

    def ini(self, settings: Mapping[str, str]) -> None:
        """Write pytest.ini."""
        lines = [f"{name} = {text}" for name, text in {**STRICT, **settings}.items()]
        (self.path / "pytest.ini").write_text("\n".join(["[pytest]", *lines]) + "\n")

    def script(self, **fields: object) -> None:
        """Set what the fake back end plays."""
        self.environment.setenv("BUSBW_FAKE", json.dumps(fields))

    def fill_disk(self, bytes_left: int = 64) -> None:
        """Let no file get longer than `bytes_left` at the end of the sessions that follow."""
        with (self.path / "conftest.py").open("a") as conftest:
            conftest.write(_FULL.format(bytes_left=bytes_left))

    def without_root(self) -> None:
        """Let permissions hold in the sessions that follow, whoever runs this test."""
        self._before = (sys.executable, str(_LAUNCHER))

    def run(self, *options: str, exit_code: int, reports: bool = True) -> Ran:
        """Run one small session with the fake back end and no cache; check its exit code."""
        return self.pytest(*FAKE, *WITHOUT_CACHE, *options, exit_code=exit_code, reports=reports)

    def pytest(self, *options: str, exit_code: int, reports: bool = True) -> Ran:
        """Run a session with these options and no others but those of the reports."""
        junit, results = self.path / "junit.xml", self.path / "results.json"
        for path in (junit, results):
            path.unlink(missing_ok=True)
        written = (f"--junitxml={junit}", f"--results={results}") if reports else ()
        status, text = self._done(*written, *options)
        assert status == exit_code, text
        return Ran(
            exit_code=status,
            text=text,
            results=json.loads(results.read_text()) if results.exists() else None,
            junit=ElementTree.parse(junit).getroot() if junit.exists() else None,
        )

    def ended(self, *options: str) -> tuple[int, str]:
        """Run a session like `run`'s; return its exit code, whatever it is, and its output."""
        return self._done(*FAKE, *WITHOUT_CACHE, *options)

    def _done(self, *options: str) -> tuple[int, str]:
        """Return how a session ended and its output, stderr last."""
        if self._before or not self._forked.fits(os.environ):
            done = self.pytester.run(*self.command(*options), timeout=TIMEOUT_S)
            return int(done.ret), "\n".join([*done.outlines, *done.errlines])
        folder, out, err = os.getcwd(), self.path / "stdout", self.path / "stderr"
        # As pytester does.
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
        session = Session(
            options=self._options(*options),
            folder=folder,
            environment={**os.environ, "PYTHONPATH": path},
            out=str(out),
            err=str(err),
            timeout_s=TIMEOUT_S,
        )
        status = self._forked.run(session)
        lines = [line for path in (out, err) for line in path.read_text().splitlines()]
        return status, "\n".join(lines)

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Begin a session like `run`'s; its output goes to ``output.txt`` in the folder."""
        return self.begin(*FAKE, *WITHOUT_CACHE, *options)

    def begin(self, *options: str) -> subprocess.Popen[bytes]:
        """Begin a session with these options and no others, as `start` does."""
        command = self.command(*options)
        with (self.path / "output.txt").open("a") as output:
            begun = self.pytester.popen(command, stdout=output, stderr=subprocess.STDOUT)
        assert isinstance(begun, subprocess.Popen)
        self._begun.append(begun)
        return begun

    def end(self) -> None:
        """End what `start` and `begin` began, however it stands."""
        for session in self._begun:
            session.kill()
            session.wait()

    def command(self, *options: str) -> list[str]:
        """Return the command that starts pytest in this folder."""
        return [*self._before, sys.executable, "-m", "pytest", *self._options(*options)]

    def _options(self, *options: str) -> list[str]:
        """Add the options of every session in this folder."""
        return [f"--basetemp={self.path / 'base'}", *NOT_NEEDED, *options]

    @property
    def output(self) -> str:
        """What a started session has written."""
        return (self.path / "output.txt").read_text()

    @property
    def baseline_files(self) -> list[Path]:
        """All files below baselines/."""
        return sorted(path for path in (self.path / "baselines").rglob("*") if path.is_file())

    @property
    def baseline_file(self) -> Path:
        """The only one."""
        (path,) = self.baseline_files
        return path

    @property
    def stored(self) -> dict[str, Any]:
        """What the only file of baselines says."""
        document: dict[str, Any] = json.loads(self.baseline_file.read_text())
        return document

    @property
    def history_file(self) -> Path:
        """The only file of the history in the folder `history`."""
        (path,) = (self.path / "history").rglob("*.jsonl")
        return path

    @property
    def history_lines(self) -> list[dict[str, Any]]:
        """What each line of the history says."""
        return [json.loads(line) for line in self.history_file.read_text().splitlines()]

    def updated(self, *options: str) -> Ran:
        """Run a session that stores its times."""
        return self.run("--update-baselines", *options, exit_code=0)

    def with_baselines(self, *options: str) -> None:
        """Have what such a session stores, by one or from an earlier one just like it."""
        begun_by = (*self._before, *options)
        self._written.or_by(lambda: self.updated(*options), begun_by, self.path)

    def slower(self, factor: float, *options: str, script: Mapping[str, object] = SLOW) -> None:
        """Have baselines, and from now on let every case take `factor` times as long."""
        self.script(**script)
        self.with_baselines(*options)
        self.script(**script, cases=[{"slower": factor}])

    def regressed(self, *options: str) -> None:
        """Have a baseline that today's times will not meet."""
        self.script(**SLOW)
        self.with_baselines(*options)
        self.scale_baseline(1 / 3)

    def scale_baseline(self, factor: float, payload: str = "1M") -> None:
        """Change the times and the pin of one line by hand."""
        path = self.baseline_file
        before = path.read_text().splitlines(keepends=True)
        after = [_scaled(line, factor) if f'"{payload}"' in line else line for line in before]
        assert sum(a != b for a, b in zip(before, after)) == 1
        path.write_text("".join(after))

    def left_over(self) -> list[str]:
        """List what lies in the temporary folder."""
        return sorted(path.name for path in self.temporary.iterdir())


def _scaled(line: str, factor: float) -> str:
    def times(match: re.Match[str]) -> str:
        values = [factor * float(text) for text in match[1].split(",")]
        return f'Z": {json.dumps(values)}'

    def pin(match: re.Match[str]) -> str:
        return f'"pinned_us": {factor * float(match[1])}'

    line = re.sub(r'Z": \[([^\]]+)\]', times, line)
    return re.sub(r'"pinned_us": ([\d.]+)', pin, line)

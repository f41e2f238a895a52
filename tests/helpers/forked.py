"""Sessions and commands that are forked from a process that has imported what they need already.

Importing it takes longer than all the rest of a small session, so that a process of tests does it
once. A session is a process of its own all the same, and all that a session imports or sets is
gone with it. Only what Python itself does as it starts is not its own: what would change that, such
as PYTHONOPTIMIZE, wants ``python -m pytest``.

Run as a program, this file is the process that forks: a request a line, and a reply to each.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

# What Python reads as it starts, and never again.
_READ_AT_START = ("PYTHON", "LC_", "LANG")
# What is said to the tests themselves.
_OF_THE_TESTS = ("PYTEST_", "BUSBW_", "CI")
# Those that a session begins with, whatever else is asked of it.
_PLUGINS = ("-p", "busbw.plugin", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")

_ONE_CASE = ("--frameworks=fake", "--payloads=1K")
# What a session imports once an option asks for it.
_ASKED_FOR = ("busbw.extensions.cluster.transport", "busbw.extensions.page.page")


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(_READ_AT_START)}


@dataclass(frozen=True, kw_only=True)
class Session:
    """What is asked: ``python -m program`` with `options`, and where its stdout and stderr go."""

    options: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    out: str
    err: str
    timeout_s: float


class Forked:
    """The process that forks `program`, pytest or busbw, started when that is first asked for.

    `folder` is empty, for itself; `flags` are Python's.
    """

    def __init__(self, program: str, folder: Path, *flags: str) -> None:
        self._command = [sys.executable, *flags, __file__, program, str(folder)]
        self._environment = {
            name: text for name, text in os.environ.items() if not name.startswith(_OF_THE_TESTS)
        }
        self._process: subprocess.Popen[str] | None = None

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Return whether Python would start in `environment` as the forking process has started."""
        return _at_start(environment) == _at_start(self._environment)

    def run(self, session: Session) -> int:
        """Return how a session ended, as a Popen does; TimeoutExpired if it had to be killed."""
        process = self._process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(asdict(session)) + "\n")
        process.stdin.flush()
        status = json.loads(process.stdout.readline())
        if status is None:
            raise subprocess.TimeoutExpired(list(session.options), session.timeout_s)
        return int(status)

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def end(self) -> None:
        """Say that no session will be asked for any more."""
        if self._process is not None:
            self._process.communicate(timeout=60)


def _import_all(program: str, folder: str) -> None:
    """Import what the program does; pytest by a session that collects a test and measures none."""
    sys.path[0] = folder
    before = list(sys.path)
    os.chdir(folder)
    if program == "pytest":
        import pytest

        Path("test_imported_by_all.py").write_text("def test_case(busbw_verdict): 0")
        options = [*_PLUGINS, "--collect-only", "--quiet", f"--rootdir={folder}", *_ONE_CASE]
        assert pytest.main(options) is pytest.ExitCode.OK
        for name in _ASKED_FOR:
            # The folders of extensions can be deleted.
            if importlib.util.find_spec(name.rpartition(".")[0]):
                importlib.import_module(name)
    else:
        importlib.import_module(f"{program}.cli").find_command_modules()
    sys.path[:] = before
    # Else each session would say once more what is still in the buffer.
    sys.stdout.flush()
    # What there is now is shared by all sessions, and not looked through by each.
    gc.collect()
    gc.freeze()


def _become(program: str, session: Session) -> NoReturn:
    """Be what ``python -m program`` is once Python has started, until Python would end.

    Then all modules would be taken apart, which costs as much as making copies of them.
    """
    for descriptor, path in ((1, session.out), (2, session.err)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(session.folder)
    os.environ.clear()
    os.environ.update(session.environment)
    tempfile.tempdir = None
    sys.path[0] = session.folder
    sys.argv = [program, *session.options]
    try:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        atexit._run_exitfuncs()
        for written in (sys.stdout, sys.stderr):
            written.flush()
        os._exit(int(ending.code or 0))
    raise AssertionError("both programs end by SystemExit")


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError


def _status(child: int, timeout_s: float) -> int | None:
    """Return how the session ended; None if it had to be killed."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _serve(program: str, folder: str) -> None:
    requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    _import_all(program, folder)
    for line in requests:
        session = Session(**json.loads(line))
        child = os.fork()
        if not child:
            _become(program, session)
        replies.write(json.dumps(_status(child, session.timeout_s)) + "\n")
        replies.flush()


if __name__ == "__main__":
    _serve(*sys.argv[1:])

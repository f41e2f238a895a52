"""Workers of the fake back end: scripted, requested, dying, watched, searched for."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalTransport, LocalWorker
from busbw.driver.schedules import StackWorkers
from busbw.driver.transport import EndMethod, Reply, Request, WorkerExit, WorkerSpec
from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, MeasurementPlan, Run
from busbw.model.machine import EnvironmentKey, GroupMember
from tests.helpers import build

PLAN = MeasurementPlan(launches=1, samples=2)

# The world of the fake back end where no script says otherwise.
KEY = build.key(device_kind="Fake CPU")


def worker_spec(python: str = sys.executable, **script: object) -> WorkerSpec:
    """Return how to start a worker with the fake back end, which plays `script`."""
    return WorkerSpec(
        python=python, framework="fake", ranks=4, environment={"BUSBW_FAKE": json.dumps(script)}
    )


def stack(begin: WorkerSpec | None = None, injection: Injection | None = None) -> StackWorkers:
    return StackWorkers(worker_specs={"fake": begin or worker_spec()}, injection=injection)


def executor(bundle: Bundle, on_note: Callable[[str], None] = lambda note: None) -> Executor:
    return Executor(LocalTransport(bundle), on_note)


def measure(payload_bytes: int = 1024, key: EnvironmentKey = KEY) -> Request[Run]:
    return Request("measure", Run, {"case": case(payload_bytes), "plan": PLAN, "key": key})


def case(payload_bytes: int, framework: str = "fake") -> Case:
    return build.case(
        framework=framework, strategy="fake", payload_bytes=payload_bytes, protocol="host/fake"
    )


def keyed(*cases: Case, key: EnvironmentKey = KEY) -> dict[Case, EnvironmentKey]:
    """Key these cases, all resolved on one world."""
    return dict.fromkeys(cases, key)


STEP_S = 0.02


def processes(folder: Path) -> list[int]:
    """Return ids of processes whose command line names `folder` or something in it."""
    pids = []
    names = re.compile(rf"(^|[=\0]){re.escape(str(folder))}([/\0]|$)")
    # Not by a pattern: it looks at what it finds, and a process may end meanwhile.
    for number in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if names.search(Path(f"/proc/{number}/cmdline").read_text(errors="replace")):
                pids.append(int(number))
    return pids


def state(process: int) -> str:
    """Return the state of a process, such as T for one that is stopped; empty for none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def can_unshare(*namespaces: str) -> bool:
    """Tell whether a program can be run in such namespaces of its own."""
    try:
        done = subprocess.run(["unshare", *namespaces, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def wait_until(true: Callable[[], object], deadline_s: float = 30.0) -> bool:
    """Look again and again until `true` or the deadline; whether it came true."""
    end_s = time.monotonic() + deadline_s
    while not true():
        if time.monotonic() > end_s:
            return False
        time.sleep(STEP_S)
    return True


def failure(answer: object) -> Failure:
    assert isinstance(answer, Failure)
    return answer


def answer_of(
    worker: LocalWorker, request: Request[Any] | None, timeout_s: float
) -> Reply | WorkerExit:
    """Return the worker's reply to `request` (None: just listen), or how it ended."""
    worker.send(request)
    end_s = time.monotonic() + timeout_s
    while True:
        ready, _, _ = select.select([worker], [], [], max(0.0, end_s - time.monotonic()))
        if not ready:
            return worker.end_and_wait(EndMethod.STACK)
        answer = worker.receive()
        if answer is not None:
            return answer


def kill(worker: LocalWorker) -> None:
    worker.end_and_wait(EndMethod.KILL)


def await_ready(worker: LocalWorker, timeout_s: float = 60.0) -> None:
    assert answer_of(worker, None, timeout_s) == Reply(None)


_PROGRAM = """\
#!/bin/sh
case "$*" in
*--launch={launch}*)
    echo once >> {count}
    if [ "$(wc -l < {count})" -le {times} ]; then {act}; fi;;
esac
exec {python} "$@"
"""


def write_program(path: Path, text: str) -> Path:
    """Write a program that can be run, and return its path."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def interpreter(folder: Path, launch: str, *, times: int, act: str = "kill -KILL $$") -> str:
    """Write one below `folder`: `act` is what its shell does to itself."""
    text = _PROGRAM.format(
        launch=launch, count=folder / f"hits-{times}", times=times, act=act, python=sys.executable
    )
    return str(write_program(folder / f"hit-{times}", text))


# Gets the worker, and ``start``, ``listen``, ``end`` (however it ends) or the name of a request.
OnEvent = Callable[[LocalWorker, str], None]


class Watched(LocalTransport):
    """Tells of every worker that it starts; what `on_event` raises comes where the event does."""

    def __init__(self, bundle: Bundle, on_event: OnEvent) -> None:
        super().__init__(bundle)
        self._on_event = on_event

    def start(
        self, worker_spec: WorkerSpec, launch: LaunchId, member: GroupMember | None
    ) -> LocalWorker:
        worker = _WatchedWorker(worker_spec, self._bundle, launch, member)
        worker.on_event = self._on_event
        self._on_event(worker, "start")
        return worker


class _WatchedWorker(LocalWorker):
    on_event: OnEvent
    is_over = False

    def send(self, request: Request[Any] | None) -> None:
        self.on_event(self, request.name if request else "listen")
        super().send(request)

    def request_end(self, ending: EndMethod) -> None:
        if not self.is_over:
            self.is_over = True
            self.on_event(self, "end")
        super().request_end(ending)

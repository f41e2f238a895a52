"""All processes of a session, which has its machine to itself: groups are started, asked, ended.

The Executor counts where the time went. However the work ends, no process is left: it is a context
manager that kills all groups. It does not know what is measured or compiled. What is asked once
is here too: devices, and what an interpreter has, for which no device is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from busbw import wire
from busbw.model import variables
from busbw.model.cluster import ALONE, Cluster
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import Probe
from busbw.model.words import FailureKind

from .group import Group
from .local import order_of
from .process import environment_of, text_of
from .transport import Request, Starter, Transport

# Importing a framework takes long where nothing is cached.
START_TIMEOUT_S = 180.0
PROBE_TIMEOUT_S = 180.0

_PROBE = LaunchId(name="probe")


class Executor:
    """All groups of a session. `on_note` takes what the user should know of launches.

    `spent_s` has the seconds of each phase: starting processes, measuring cases, ending processes.
    Several threads may use it, each with its own groups.
    """

    def __init__(
        self,
        transport: Transport,
        on_note: Callable[[str], None] = lambda note: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spent_s: dict[str, float] = {}
        self.on_note = on_note
        self.clock = clock
        self._transport = transport
        self._alive: set[Group] = set()
        self._lock = threading.Lock()
        self.is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def interpreter(self, starter: Starter) -> str:
        return self._transport.interpreter(starter)

    def start(self, starter: Starter, launch: LaunchId, cluster: Cluster | None = None) -> Group:
        group = Group(self._transport, starter, launch, cluster or starter.cluster)
        with self._lock:
            self._alive.add(group)
            if self.is_stopped:
                group.interrupt()
        return group

    def begun(self, group: Group, starter: Starter) -> Group | Failure:
        """`group` when it is ready, or the group that replaced it.

        A group that was killed by a signal or hung is started once more: such an end says nothing
        of what is measured, and would cost every case of the launch. A process that exited by
        itself has logged why, and would do so again.
        """
        failure = group.begin(START_TIMEOUT_S)
        if failure is None:
            return group
        self.end(group)
        if self.is_stopped or not cut_short(failure):
            return failure
        self.on_note(started_again(failure))
        # Members are named after their index, a single process after its launch.
        launch = group.launch.again if group.cluster == ALONE else group.launch
        other = self.start(starter, launch, group.cluster)
        failure = other.begin(START_TIMEOUT_S)
        if failure is not None:
            self.end(other)
        return failure or other

    def opened(
        self, starter: Starter, launch: LaunchId, cluster: Cluster | None = None
    ) -> Group | Failure:
        return self.begun(self.start(starter, launch, cluster), starter)

    def close(self, group: Group) -> None:
        with self.counted("ending"):
            ended = group.close()
        self.end(group)
        if not ended:
            name = group.launch
            self.on_note(f"the worker of launch {name} did not end by itself and was killed")

    def stop(self) -> None:
        """Interrupt every group, from any thread, and every group that is started later."""
        with self._lock:
            self.is_stopped = True
            alive = list(self._alive)
        for group in alive:
            group.interrupt()

    def kill(self) -> None:
        with self._lock:
            alive = list(self._alive)
        # All are killed before the first one is waited for: waiting may be interrupted again.
        for group in alive:
            group.interrupt()
        for group in alive:
            self.end(group)

    @contextlib.contextmanager
    def counted(self, phase: str) -> Iterator[None]:
        begun_s = self.clock()
        try:
            yield
        finally:
            self.spent_s[phase] = self.spent_s.get(phase, 0.0) + self.clock() - begun_s

    def end(self, group: Group) -> None:
        group.kill()
        with self._lock:
            self._alive.discard(group)


def cut_short(failure: Failure) -> bool:
    """Tell whether a process hung or was killed, which is nothing that it did itself."""
    is_ended = failure.kind in (FailureKind.TIMEOUT, FailureKind.KILLED)
    return is_ended or (failure.exit_code or 0) < 0


def started_again(failure: Failure) -> str:
    return f"launch {failure.launch}: {failure.message}; it was started once more"


class ProbeFailed(Exception):
    """A framework whose devices are unknown; the message says how its worker ended."""


class ProbeCutShort(ProbeFailed):
    """The worker hung or died of a signal, twice: that says nothing of the request."""


class ProbesDiffer(ProbeFailed):
    """Processes of one group have other versions or devices: they are no single stack."""


def probe(starter: Starter, executor: Executor) -> Probe:
    """The devices that the framework of `starter` reaches.

    Raises ProbeFailed with the end of the log, ProbeCutShort if a second worker hung or died of a
    signal, too, and ProbesDiffer if the processes of a group do not have the same.
    """
    answer = _asked(starter, executor, _PROBE)
    if isinstance(answer, Failure) and cut_short(answer):
        executor.on_note(started_again(answer))
        answer = _asked(starter, executor, _PROBE.again)
        if isinstance(answer, Failure) and cut_short(answer):
            # It goes into reports, unlike a usage error.
            home = os.path.expanduser("~")
            python = variables.without_homes(executor.interpreter(starter), home)
            raise ProbeCutShort(f"{python}: {words_of(answer)}; it was tried twice")
    if not isinstance(answer, Failure):
        return answer
    if answer.kind is FailureKind.WRONG_WORLD:
        raise ProbesDiffer(f"{starter.framework}: {answer.message}")
    raise ProbeFailed(f"{executor.interpreter(starter)}: {words_of(answer)}")


def _asked(starter: Starter, executor: Executor, launch: LaunchId) -> Probe | Failure:
    group = executor.start(starter, launch)
    request, doing = Request("probe", Probe), f"looking for devices with {starter.framework}"
    try:
        failure = group.begin(PROBE_TIMEOUT_S, doing)
        return group.ask(request, PROBE_TIMEOUT_S, doing) if failure is None else failure
    finally:
        executor.end(group)


def words_of(failure: Failure) -> str:
    return failure.message if failure.log else f"{failure.message}: nothing in its log"


# Any Python can run this. What is found in the current folder does not reach a worker.
_ASKED = """
import json, sys
sys.path[:] = [path for path in sys.path if path]
found = {"python": sys.version.split()[0], "missing": [], "path": "", "version": ""}
if sys.version_info >= (3, 11):
    from importlib import util
    name, names = sys.argv[1], sys.argv[2:]
    specs = {one: util.find_spec(one) for one in (name, "numpy")}
    found["missing"] = [one for one in specs if specs[one] is None]
    origin, file = getattr(specs[name], "origin", None) or "", "/__init__.py"
    found["path"] = origin[: -len(file)] if origin.endswith(file) else origin
    if origin:
        # Takes longer than all the rest, and knows nothing of what is not there.
        from importlib import metadata
    for one in names if origin else ():
        try:
            there = metadata.distribution(one)
        except metadata.PackageNotFoundError:
            continue
        if str(there.locate_file(name + file)) == origin:
            found["version"] = there.version
            break
print(json.dumps(found))
"""
_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """Its version, what is `missing`, and where the framework is; "" where that is not known."""

    python: str
    missing: tuple[str, ...] = ()
    path: str = ""
    version: str = ""


def interpreter(starter: Starter, packages: Sequence[str]) -> Interpreter | None:
    """None where it did not say in time, or was killed. Raises ProbeFailed for no Python."""
    command = [starter.python, "-c", _ASKED, starter.framework, *packages]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=environment_of(order_of(starter, LaunchId()), os.environ),
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        raise ProbeFailed(f"{starter.python} cannot be run: {error.strerror}") from error
    if done.returncode < 0:
        return None
    said = (done.stdout if done.returncode == 0 else done.stderr).decode(errors="replace")
    last = next(iter(reversed(said.strip().splitlines())), "it said nothing")
    try:
        return wire.from_json(Interpreter, json.loads(last), "interpreter")
    except (ValueError, wire.WireError) as error:
        last = text_of(last.encode(), os.environ)[:120]
        raise ProbeFailed(f"{starter.python} does not run as Python: {last}") from error

"""All processes of a session, which has its machine to itself: groups are started and ended.

However the work ends, no process is left: the Executor is a context manager that kills all groups.
It does not know what is measured or compiled.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Self

from busbw.model.cluster import ALONE, Cluster
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import Probe
from busbw.model.words import FailureKind

from .group import Group
from .transport import (
    HostError,
    HostLostError,
    IncomparableHostsError,
    Request,
    Starter,
    Transport,
)

# Importing a framework takes long where nothing is cached.
START_TIMEOUT_S = 180.0

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
        self.transport = transport
        self.is_stopped = False
        self._groups: list[Group] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start(self, starter: Starter, launch: LaunchId, cluster: Cluster | None = None) -> Group:
        group = Group(self.transport, starter, launch, cluster or starter.cluster)
        self._groups.append(group)
        if self.is_stopped:
            group.interrupt()
        return group

    def begin(self, group: Group) -> Group | Failure:
        """Wait until `group` is ready; return it, or the group that replaced it."""
        failure = group.begin(START_TIMEOUT_S)
        if failure is None:
            return group
        if not self.is_repeated(failure):
            return failure
        # Members are named after their index, a single process after its launch.
        launch = group.launch.again if group.cluster == ALONE else group.launch
        other = self.start(group.starter, launch, group.cluster)
        return other.begin(START_TIMEOUT_S) or other

    def is_repeated(self, failure: Failure) -> bool:
        """Tell whether a start that failed is repeated, and note that.

        A process that was killed by a signal or hung is started once more: such an end says nothing
        of what is measured, and would cost every case of the launch. A process that exited by
        itself has logged the reason, and would exit again.
        """
        is_repeated = is_cut_short(failure) and not self.is_stopped
        if is_repeated:
            self.on_note(f"launch {failure.launch}: {failure.message}; it was started once more")
        return is_repeated

    def open(self, starter: Starter, launch: LaunchId) -> Group | Failure:
        return self.begin(self.start(starter, launch))

    def close(self, group: Group) -> None:
        with self.counted("ending"):
            has_exited = group.close()
        if not has_exited:
            self.on_note(
                f"the worker of launch {group.launch} did not end by itself and was killed"
            )

    def stop(self) -> None:
        """Interrupt every group, from any thread, and every group that is started later."""
        self.is_stopped = True
        for group in list(self._groups):
            group.interrupt()

    def kill(self) -> None:
        # All are killed before the first one is waited for: waiting may be interrupted again.
        for group in self._groups:
            group.interrupt()
        while self._groups:
            self._groups[-1].kill()
            self._groups.pop()

    @contextlib.contextmanager
    def counted(self, phase: str) -> Iterator[None]:
        """Add the time within to a phase."""
        begin_s = self.clock()
        try:
            yield
        finally:
            self.spent_s[phase] = self.spent_s.get(phase, 0.0) + self.clock() - begin_s


def is_cut_short(failure: Failure) -> bool:
    """Tell whether a process hung or was killed, which is nothing that it did itself."""
    is_ended = failure.kind in (FailureKind.TIMEOUT, FailureKind.KILLED)
    return is_ended or (failure.exit_code or 0) < 0


def probe(starter: Starter, executor: Executor) -> Probe:
    """Return the devices that the framework of `starter` reaches.

    Raises HostError with the end of the log, HostLostError if a second worker hung or died of a
    signal, too, and IncomparableHostsError if the processes of a group have other versions or
    devices.
    """
    answer = _probe(starter, executor, _PROBE)
    if isinstance(answer, Failure) and executor.is_repeated(answer):
        answer = _probe(starter, executor, _PROBE.again)
    if isinstance(answer, Probe):
        return answer
    kind: type[HostError] = HostLostError if is_cut_short(answer) else HostError
    if answer.kind is FailureKind.WRONG_WORLD:
        kind = IncomparableHostsError
    # The interpreter is named if it is another than this process's.
    raise kind(": ".join(filter(None, (starter.framework, starter.python, answer.message))))


def _probe(starter: Starter, executor: Executor, launch: LaunchId) -> Probe | Failure:
    group, doing = executor.start(starter, launch), f"looking for devices with {starter.framework}"
    failure = group.begin(START_TIMEOUT_S, doing)
    if failure is not None:
        return failure
    answer = group.ask(Request("probe", Probe), START_TIMEOUT_S, doing)
    group.kill()
    return answer

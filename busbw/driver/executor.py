"""Starts groups of processes, asks them, ends them; counts what the time went to.

Does not know what is measured or compiled. Whatever ends the work, no process is left: an executor
is a context manager that ends all that live.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from busbw.model import ALONE, Cluster, Failure, FailureKind, LaunchId

from .group import Group
from .transport import Starter, Transport

# Importing a framework takes long where nothing is cached.
START_TIMEOUT_S = 180.0


class Executor:
    """All groups of a session. `on_note` takes what the user should know of launches.

    `spent_s` grows by phase: seconds of processes starting, of cases being measured, of processes
    ending. Several threads may have groups of their own.
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
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing may be started any more."""
        return self._stopped

    def start(self, starter: Starter, launch: LaunchId, cluster: Cluster = ALONE) -> Group:
        """A group that is not awaited yet."""
        group = Group(self._transport, starter, launch, cluster)
        with self._lock:
            self._alive.add(group)
            if self._stopped:
                group.interrupt()
        return group

    def begun(self, group: Group, starter: Starter) -> Group | Failure:
        """`group` when it is ready, or the one that took its place.

        Where the first was cut short, killed, crashed or hung, it is started once more: such an
        end says nothing of what is to be measured, and would cost every case of the launch. A
        process that ended by itself has said why, and would do so again.
        """
        failure = group.begin(START_TIMEOUT_S)
        if failure is None:
            return group
        self.end(group)
        if self.is_stopped or not cut_short(failure):
            return failure
        self.on_note(started_again(failure))
        # Members are named after their roles, a process by itself after its launch.
        launch = group.launch.again if group.cluster == ALONE else group.launch
        other = self.start(starter, launch, group.cluster)
        failure = other.begin(START_TIMEOUT_S)
        if failure is not None:
            self.end(other)
        return failure or other

    def opened(
        self, starter: Starter, launch: LaunchId, cluster: Cluster = ALONE
    ) -> Group | Failure:
        """A group that is ready."""
        return self.begun(self.start(starter, launch, cluster), starter)

    def close(self, group: Group) -> None:
        """Let a group end by itself, and say if it had to be killed."""
        with self.counted("ending"):
            ended = group.close()
        self.end(group)
        if not ended:
            name = group.launch
            self.on_note(f"the worker of launch {name} did not end by itself and was killed")

    def stop(self) -> None:
        """Have every group end, from another thread; those that come later end at once."""
        with self._lock:
            self._stopped = True
            alive = list(self._alive)
        for group in alive:
            group.interrupt()

    def kill(self) -> None:
        """End every group at once."""
        with self._lock:
            alive = list(self._alive)
        # All are told before the first one is waited for: that may be interrupted again.
        for group in alive:
            group.interrupt()
        for group in alive:
            self.end(group)

    @contextlib.contextmanager
    def counted(self, phase: str) -> Iterator[None]:
        """Count what happens meanwhile to `phase`."""
        begun_s = self.clock()
        try:
            yield
        finally:
            self.spent_s[phase] = self.spent_s.get(phase, 0.0) + self.clock() - begun_s

    def end(self, group: Group) -> None:
        """End a group at once."""
        group.kill()
        with self._lock:
            self._alive.discard(group)


def cut_short(failure: Failure) -> bool:
    """Whether a process hung or died of a signal."""
    return failure.kind is FailureKind.TIMEOUT or (failure.exit_code or 0) < 0


def stopped(failure: Failure) -> bool:
    """Whether a process hung or was killed, which none does to itself."""
    return failure.kind in (FailureKind.TIMEOUT, FailureKind.KILLED)


def started_again(failure: Failure) -> str:
    """A note for the user: a launch was cut short, and there was another."""
    return f"launch {failure.launch}: {failure.message}; it was started once more"

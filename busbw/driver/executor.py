"""All processes of a session, which has its machine alone: groups are started, asked, ended.

The Executor counts what the time went to. Whatever ends the work, no process is left: it is a
context manager that ends all that live. It does not know what is measured or compiled; what a whole
group is asked once stands here too, to look for devices and to train a net.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from busbw import locks
from busbw.model import (
    ALONE,
    Cluster,
    Failure,
    FailureKind,
    LaunchId,
    Probe,
    TrainingAnswer,
    TrainingRequest,
)

from .group import Group
from .transport import Request, Starter, Transport

# Importing a framework takes long where nothing is cached.
START_TIMEOUT_S = 180.0
PROBE_TIMEOUT_S = 180.0

_PROBE = LaunchId(name="probe")


class BusyError(Exception):
    """Another session has been measuring for as long as it was waited for, or might be."""


@contextlib.contextmanager
def alone(wait_s: float, on_wait: Callable[[str], None] = lambda holder: None) -> Iterator[None]:
    """Hold the machine, after up to `wait_s` for another session's end; then raise BusyError.

    `on_wait` is called before waiting, with who measures, such as ``pid 1234, started 03:12:08``.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locks.machine(wait_s, lambda holder: on_wait(holder.text)))
        except locks.Busy as error:
            raise BusyError(
                "another session has been measuring on this machine for "
                f"{wait_s:g} s ({error.holder.text})"
            ) from error
        except OSError as error:
            raise BusyError(
                f"nobody can be kept from measuring on this machine: {error}"
            ) from error
        yield


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
        end says nothing of what is measured, and would cost every case of the launch. A
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


class ProbeFailed(Exception):
    """A framework that could not be asked; the message says how its worker ended."""


class ProbeCutShort(ProbeFailed):
    """The worker hung or died of a signal, and so did another: that says nothing of the request."""


def probe(starter: Starter, executor: Executor) -> Probe:
    """What the framework of `starter` reaches.

    Raises ProbeFailed with the end of the log, and ProbeCutShort for a second worker that hung or
    died of a signal.
    """
    answer = _asked(starter, executor, _PROBE)
    if isinstance(answer, Failure) and cut_short(answer):
        executor.on_note(started_again(answer))
        answer = _asked(starter, executor, _PROBE.again)
        if isinstance(answer, Failure) and cut_short(answer):
            raise ProbeCutShort(f"{_words(starter, answer)}; it was tried twice")
    if isinstance(answer, Failure):
        raise ProbeFailed(_words(starter, answer))
    return answer


def _asked(starter: Starter, executor: Executor, launch: LaunchId) -> Probe | Failure:
    group = executor.start(starter, launch)
    doing = f"looking for devices with {starter.framework}"
    try:
        failure = group.begin(PROBE_TIMEOUT_S, doing)
        if failure is not None:
            return failure
        answer = group.ask(Request("probe"), PROBE_TIMEOUT_S, doing)
    finally:
        executor.end(group)
    assert isinstance(answer, (Probe, Failure))
    return answer


def _words(starter: Starter, failure: Failure) -> str:
    return f"{starter.python}: {failure.message}: {failure.last_line}"


def trained(
    executor: Executor,
    starter: Starter,
    launch: LaunchId,
    request: TrainingRequest,
    timeout_s: float,
) -> tuple[TrainingAnswer, ...] | Failure:
    """What those answer that train, in the order of their roles; no process of theirs is left.

    `timeout_s` is for the training alone. A group of which one is cut short before that is started
    once more.
    """
    group = executor.opened(starter, launch, request.cluster)
    if isinstance(group, Failure):
        return group
    try:
        answers = group.ask_all(Request("train", {"training": request}), timeout_s, "training")
    finally:
        # A server never ends by itself.
        executor.end(group)
    if isinstance(answers, Failure):
        return answers
    return tuple(one for one in answers.values() if isinstance(one, TrainingAnswer))

"""Start and end the groups of worker processes of a session.

An Executor is a context manager that kills all groups at its end, so that no process is left
however the session ends. An Executor works in the same way for all kinds of requests.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import NO_GROUP, Probe
from busbw.model.words import FailureKind

from .group import Group
from .transport import (
    HostError,
    HostLostError,
    IncomparableHostsError,
    Request,
    Transport,
    WorkerSpec,
)

# Importing a framework takes long if its files are not in the page cache of the host.
START_TIMEOUT_S = 180.0

_PROBE_LAUNCH = LaunchId(name="probe")


class Executor(contextlib.AbstractContextManager["Executor"]):
    """The owner of all groups of worker processes of a session, which starts and ends groups.

    Several threads may use an Executor, each with groups of its own.

    Attributes:
        transport: The transport that starts workers, on this host or on other hosts.
        on_note: A function that is called with each note for the user, a sentence, for example when
            a launch was started again.
        spent_s: The seconds spent in each phase so far, by the name of the phase: ``starting``
            processes, ``measuring`` cases, and ``ending`` processes.
        is_stopped: Whether `stop` was called. If so, new groups are killed at once.

    """

    def __init__(
        self,
        transport: Transport,
        on_note: Callable[[str], None] = lambda note: None,
    ) -> None:
        self.spent_s: dict[str, float] = {}
        self.on_note = on_note
        self.transport = transport
        self.is_stopped = False
        self._groups: list[Group] = []

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start_group(self, worker_spec: WorkerSpec, launch: LaunchId) -> Group:
        """Start the workers of a launch, and return their group without waiting for the workers.

        `worker_spec` says how the workers are started, and `launch` is the id of the launch. Raises
        HostError if a worker cannot be started.
        """
        group = Group(self.transport, worker_spec, launch)
        self._groups.append(group)
        if self.is_stopped:
            group.interrupt()
        return group

    def wait_until_ready(self, group: Group) -> Group | Failure:
        """Wait until the workers of `group` are ready for requests, and return the group.

        If a worker is killed or hangs, the launch is started once more, and the new group is
        returned. Returns a Failure if the workers do not become ready. Raises HostError if a worker
        cannot be started.
        """
        failure = group.wait_until_ready(START_TIMEOUT_S)
        if failure is None or not self.decide_to_start_again(failure):
            return failure or group
        # The log of a single process is named after its launch, so the second process needs another
        # name. The logs of a group are named after the index of a member, too, and are appended to.
        is_alone = group.worker_spec.cluster == NO_GROUP
        other = self.start_group(group.worker_spec, replace(group.launch, is_replacement=is_alone))
        return other.wait_until_ready(START_TIMEOUT_S) or other

    def decide_to_start_again(self, failure: Failure) -> bool:
        """Decide whether to start a launch again after `failure`; if so, tell the user by a note.

        A launch is started again if a process was killed by a signal or hung before the launch was
        ready. The cause is then probably not the measured software, and without a new start all
        cases of the launch would fail. A launch is not started again if a process exited by itself,
        because the process would exit again.
        """
        should_start_again = was_process_cut_short(failure) and not self.is_stopped
        if should_start_again:
            self.on_note(f"launch {failure.launch}: {failure.message}; it was started once more")
        return should_start_again

    def open_group(self, worker_spec: WorkerSpec, launch: LaunchId) -> Group | Failure:
        """Start the workers of a launch, and wait until the workers are ready for requests.

        Returns the group, or a Failure if the workers did not become ready, even after a second
        start. Raises HostError if a worker cannot be started.
        """
        return self.wait_until_ready(self.start_group(worker_spec, launch))

    def close_group(self, group: Group) -> None:
        """Let all workers of `group` exit, and tell the user if a worker had to be killed."""
        with self.time_phase("ending"):
            has_exited = group.close_gracefully()
        if not has_exited:
            self.on_note(
                f"the worker of launch {group.launch} did not end by itself and was killed"
            )

    def stop(self) -> None:
        """Kill all workers without waiting for their end, and let no new workers run.

        The workers of groups that are started later are killed at once. Any thread may call this
        method. A thread that waits for a reply of a group gets a Failure.
        """
        self.is_stopped = True
        for group in list(self._groups):
            group.interrupt()

    def kill(self) -> None:
        """Kill the workers of all groups, and wait until these workers have ended."""
        # All processes are killed before any is waited for: Ctrl-C may interrupt the waiting.
        for group in self._groups:
            group.interrupt()
        while self._groups:
            self._groups[-1].kill()
            self._groups.pop()

    @contextlib.contextmanager
    def time_phase(self, phase: str) -> Iterator[None]:
        """Add the duration of the `with` block, in seconds, to the phase `phase` in `spent_s`."""
        begin_s = time.monotonic()
        try:
            yield
        finally:
            self.spent_s[phase] = self.spent_s.get(phase, 0.0) + time.monotonic() - begin_s


def was_process_cut_short(failure: Failure) -> bool:
    """Return whether the cause of `failure` is a hung process, a signal or a lost host.

    Returns False if the process exited by itself, or replied with the failure.
    """
    is_ended = failure.kind in (FailureKind.TIMEOUT, FailureKind.KILLED)
    return is_ended or (failure.exit_code or 0) < 0


def probe(worker_spec: WorkerSpec, executor: Executor) -> Probe:
    """Start workers that look for devices, and return the devices and versions as a Probe.

    `worker_spec` says how the workers are started: a single worker, or a group whose replies are
    merged. If a worker hangs or a signal ends the worker, busbw tries a second time.

    Raises:
        HostLostError: A worker hangs or is ended by a signal in both tries.
        IncomparableHostsError: The processes of a group have different versions or devices.
        HostError: Any other failure.

    """
    answer = _try_probe(worker_spec, executor, _PROBE_LAUNCH)
    if isinstance(answer, Failure) and executor.decide_to_start_again(answer):
        answer = _try_probe(worker_spec, executor, replace(_PROBE_LAUNCH, is_replacement=True))
    if isinstance(answer, Probe):
        return answer
    kind: type[HostError] = HostLostError if was_process_cut_short(answer) else HostError
    if answer.kind is FailureKind.WRONG_WORLD:
        kind = IncomparableHostsError
    # A WorkerSpec without an interpreter uses that of this process, which needs no name here.
    raise kind(": ".join(filter(None, (worker_spec.framework, worker_spec.python, answer.message))))


def _try_probe(worker_spec: WorkerSpec, executor: Executor, launch: LaunchId) -> Probe | Failure:
    activity = f"looking for devices with {worker_spec.framework}"
    group = executor.start_group(worker_spec, launch)
    answer: Probe | Failure | None = group.wait_until_ready(START_TIMEOUT_S, activity)
    if answer is None:
        answer = group.ask(Request("probe", Probe), START_TIMEOUT_S, activity)
    group.kill()
    return answer

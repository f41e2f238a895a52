"""Groups: the worker processes of one launch, to which each request is sent at the same time.

A single process is a group with one member. If one of several processes dies, times out or fails,
the request fails for the whole group, and all processes of the group are killed: the other
processes would wait for that process forever. The processes of a group exchange the time of every
call, so all of them return the same times. If the times differ, the processes have not measured the
same calls, and the request fails.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw import wire
from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.machine import NO_GROUP, GroupMember, Probe
from busbw.model.words import FailureKind

from .logs import failure_of_exit
from .transport import EndMethod, Reply, Request, T, Transport, Worker, WorkerExit, WorkerSpec

# After a process has failed, the other processes are watched for this time: the failure of another
# process may be the cause, and may be seen a little later.
CAUSE_WATCH_S = 0.5

# After a process has replied with a Failure, the other processes may take this long to reply. If
# all processes refuse a request, they do so within a short time.
REFUSAL_GRACE_S = 10.0

# The fields of a Run that must be equal in all processes, and the fields whose largest value is the
# value of the group.
_EQUAL_FIELDS = ("iterations", "samples_s", "clock", "proof", "clocks_s", "dispatch_s", "injected")
_FIELDS_WITH_GROUP_MAXIMUM = (
    "compile_s",
    "peak_memory_bytes",
    "predicted_memory_bytes",
    "compiled_memory_bytes",
)


class Group:
    """The running worker processes of one launch.

    The constructor starts the workers, and raises HostError if a worker cannot be started.

    Attributes:
        launch: The id of the launch.
        worker_spec: How the workers are started.
        members: The workers in the order of their indices; empty after all workers have ended.

    """

    def __init__(
        self,
        transport: Transport,
        worker_spec: WorkerSpec,
        launch: LaunchId,
    ) -> None:
        self.launch = launch
        self.worker_spec = worker_spec
        self.members: list[Worker] = []
        group_members: Sequence[GroupMember | None] = (None,)
        try:
            if worker_spec.cluster != NO_GROUP:
                group_members = transport.group_members(worker_spec.cluster)
            for member in group_members:
                index = "" if member is None else f"worker{member.index}"
                self.members.append(
                    transport.start(worker_spec, replace(launch, member=index), member)
                )
        except BaseException:
            self.kill()
            raise

    @property
    def has_ended(self) -> bool:
        """Whether the workers were closed or killed, so that no request can be sent.

        If a request fails, all workers are killed, except if each worker replied with a Failure. If
        a worker has ended by itself, this is noticed only by the next request.
        """
        return not self.members

    def wait_until_ready(self, timeout_s: float, activity: str = "starting") -> Failure | None:
        """Wait until all workers are ready for requests; return None, or a Failure.

        If a worker ends or is not ready within `timeout_s` seconds, all workers are killed, and the
        Failure is returned. `activity` describes the wait in messages, such as ``starting``.
        """
        answers = self.ask_each(None, timeout_s, activity)
        return answers if isinstance(answers, Failure) else None

    def ask(self, request: Request[T], timeout_s: float, activity: str) -> T | Failure:
        """Send a request to all processes, and return a single reply for the whole group.

        The replies of the processes are merged by `merge_replies`. Returns a Failure if any process
        fails or does not reply in time. If each process replied with a Failure, the group can be
        used again. After any other Failure all processes have been killed.

        Args:
            request: The request, with the type of its reply.
            timeout_s: How long to wait for the replies, in seconds.
            activity: A description of the request for messages, such as ``measuring CASE``.

        """
        answers = self.ask_each(request, timeout_s, activity)
        if isinstance(answers, Failure):
            return answers
        answer: T | Failure = merge_replies(answers, self.launch)
        have_refused = all(isinstance(answer, Failure) for answer in answers)
        if isinstance(answer, Failure) and not have_refused:
            self.kill()
        return answer

    def ask_each(
        self, request: Request[T] | None, timeout_s: float, activity: str
    ) -> Sequence[T | Failure] | Failure:
        """Send a request to all processes, and return a reply of each process, in their order.

        If a process ends or does not reply in time, all processes are killed, and a single Failure
        is returned, whose message names the process.

        Args:
            request: The request. None sends nothing, and the replies are the first replies of the
                workers, which say that the workers are ready.
            timeout_s: How long to wait for the replies, in seconds.
            activity: A description of the request for messages, such as ``measuring CASE``.

        """
        with contextlib.ExitStack() as stack:
            stack.callback(self.kill)
            answers = self._collect_replies(request, timeout_s, activity)
            if not isinstance(answers, Failure):
                stack.pop_all()
            return answers

    def close_gracefully(self) -> bool:
        """Let all processes exit by themselves, and return whether all of them did.

        A process that does not exit within its grace period is killed.
        """
        try:
            # All processes begin to end before any is waited for: a framework ends its connections
            # when all of its processes end.
            for member in self.members:
                member.request_end(EndMethod.CLOSE)
            exits = [member.end_and_wait(EndMethod.CLOSE) for member in self.members]
        finally:
            self.kill()
        return all(end.exit_code is not None for end in exits)

    def interrupt(self) -> None:
        """Kill all processes without waiting for their end.

        Any thread may call this method. The thread that waits for a reply gets a Failure.
        """
        for member in list(self.members):
            member.request_end(EndMethod.KILL)

    def kill(self) -> None:
        """Kill all processes, and wait until these processes have ended."""
        self.interrupt()
        while self.members:
            self.members.pop().wait()

    def _collect_replies(
        self, request: Request[Any] | None, timeout_s: float, activity: str
    ) -> Sequence[Any] | Failure:
        """Send a request and return the replies as `ask_each` does, but kill no other process."""
        deadline_s = time.monotonic() + timeout_s
        for member in self.members:
            member.send(request)
        answers: dict[int, Any] = {}
        while len(answers) < len(self.members):
            received = self._wait_for_replies(range(len(self.members)), deadline_s)
            causes = {index: end for index, end in received.items() if isinstance(end, WorkerExit)}
            # The deadline also holds for a member that sends parts of a reply without end.
            is_late = not received or time.monotonic() >= deadline_s
            if causes or (is_late and _has_failure(answers)):
                return self._find_cause(causes or answers, activity)
            if is_late:
                silent = [index for index in range(len(self.members)) if index not in answers]
                return self._end_member_after_timeout(
                    self._suspended_members(silent) or silent, activity
                )
            answers |= {
                index: reply.answer for index, reply in received.items() if isinstance(reply, Reply)
            }
            if _has_failure(answers):
                # The other processes refuse the request soon, too, or wait for this process
                # forever.
                deadline_s = min(deadline_s, time.monotonic() + REFUSAL_GRACE_S)
        return [answers[index] for index in sorted(answers)]

    def _wait_for_replies(
        self, indices: Iterable[int], end_s: float
    ) -> dict[int, Reply | WorkerExit | None]:
        """Wait until at least one of the members `indices` sends bytes or ends.

        Returns a dictionary that maps the index of each member that sent bytes or ended to its
        Reply or WorkerExit, or to None while its reply is still incomplete. The dictionary is empty
        if no member sends bytes or ends before `end_s`, a time of the monotonic clock in seconds.
        """
        # `select.select` takes no descriptor above 1023, which a few hundred hosts exceed.
        poll = select.poll()
        watched = {self.members[index].fileno(): index for index in indices}
        for descriptor in watched:
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(1000 * max(0.0, end_s - time.monotonic()))
        return {watched[fd]: self.members[watched[fd]].receive() for fd, _ in ready}

    def _find_cause(self, answers: Mapping[int, Any], activity: str) -> Failure:
        """Return the failure of the process that probably made the other processes end.

        The processes that have not ended are watched for CAUSE_WATCH_S seconds, because the end of
        the process that is the cause may be noticed later than the end of the others.

        Args:
            answers: The replies and WorkerExits that were received so far, by the index of the
                process.
            activity: A description of the request for messages, such as ``measuring CASE``.

        """
        causes = {
            index: end for index, end in answers.items() if isinstance(end, WorkerExit | Failure)
        }
        watched = {*range(len(self.members))} - {*causes}
        end_s = time.monotonic() + CAUSE_WATCH_S
        while watched and time.monotonic() < end_s:
            for index, received in self._wait_for_replies(watched, end_s).items():
                watched.discard(index)
                answer = received.answer if isinstance(received, Reply) else received
                if isinstance(answer, WorkerExit | Failure):
                    causes[index] = answer
        others = [index for index in range(len(self.members)) if index not in causes]
        if stopped := self._suspended_members(others):
            # A process that a signal stopped does not end. The other processes ended because the
            # framework told them that it does not hear from the stopped process.
            return self._end_member_after_timeout(stopped, activity)
        index = min(causes, key=lambda index: _cause_sort_key(causes[index]))
        return self._member_failure([index], causes[index], activity)

    def _suspended_members(self, indices: Iterable[int]) -> list[int]:
        """Return those of `indices` whose process was stopped by a signal such as SIGSTOP."""
        return [index for index in indices if self.members[index].is_suspended]

    def _end_member_after_timeout(self, indices: Sequence[int], activity: str) -> Failure:
        """End the first of the members `indices`, which did not reply in time; return its failure.

        Before its end the member prints the stacks of its threads, which become a part of the
        failure. The message of the failure names all members `indices`.
        """
        return self._member_failure(
            indices, self.members[indices[0]].end_and_wait(EndMethod.STACK), activity
        )

    def _member_failure(
        self, indices: Sequence[int], exit_or_failure: WorkerExit | Failure, activity: str
    ) -> Failure:
        """Return the failure of the first of the members `indices`; the message names all members.

        `exit_or_failure` is the WorkerExit of the first member, or the Failure of its reply.
        `activity` describes the request in messages.
        """
        if isinstance(exit_or_failure, WorkerExit):
            exit_or_failure = failure_of_exit(
                exit_or_failure, self.members[indices[0]].launch, activity
            )
        is_alone = self.worker_spec.cluster == NO_GROUP
        places = (("" if is_alone else f"worker {i}", self.members[i].host) for i in indices)
        names = ", ".join(" on ".join(filter(None, place)) for place in places)
        return (
            replace(exit_or_failure, message=f"{names}: {exit_or_failure.message}")
            if names
            else exit_or_failure
        )


def _has_failure(answers: Mapping[int, object]) -> bool:
    return any(isinstance(answer, Failure) for answer in answers.values())


def _cause_sort_key(exit_or_failure: WorkerExit | Failure) -> int:
    """Return a sort key for ends and failures of processes; the smallest is probably the cause.

    The order is: a lost host, a process that a signal ended, a process that exited, a Failure.
    """
    if isinstance(exit_or_failure, Failure):
        return 3
    if exit_or_failure.lost_host_text:
        return 0
    return 1 if exit_or_failure.exit_code is not None and exit_or_failure.exit_code < 0 else 2


def merge_replies(answers: Sequence[Any], launch: LaunchId) -> Any:
    """Merge the replies of all processes into a single reply of the group, and return it.

    `answers` are the replies in the order of the processes: all of the same type, or Failures.
    Returns a Failure of the launch `launch` if a reply is a Failure, or if the replies contradict
    each other.
    """
    for answer in answers:
        if isinstance(answer, Failure):
            return replace(answer, launch=launch)
    first = answers[0]
    if isinstance(first, Run):
        return _merge_runs(answers, launch)
    if isinstance(first, Probe):
        return _merge_probes(answers, launch)
    return (
        first
        if all(answer == first for answer in answers)
        else _disagreement_failure("answers", launch)
    )


def _merge_runs(runs: Sequence[Run], launch: LaunchId) -> Run | Failure:
    """Merge the Runs of all processes of a group; return a Failure if Runs contradict each other.

    Runs contradict each other if a field in `_EQUAL_FIELDS`, such as the samples or the proof,
    differs. The merged Run has the largest time of compiling, the largest amounts of memory, and
    the sum of the numbers of checked values. All other values are from the first process. `launch`
    is the id of the group's launch, which the Run or the Failure gets.
    """
    for name in _EQUAL_FIELDS:
        if any(getattr(run, name) != getattr(runs[0], name) for run in runs):
            return _disagreement_failure(name, launch)
    largest: dict[str, Any] = {
        name: _largest_field(runs, name) for name in _FIELDS_WITH_GROUP_MAXIMUM
    }
    return replace(
        runs[0],
        launch=launch,
        values_checked=sum(run.values_checked for run in runs),
        **largest,
    )


def _largest_field(values: Sequence[object], name: str) -> Any:
    """Return the largest value of the field `name` of `values`; None if all are None."""
    fields = (getattr(value, name) for value in values)
    return max((field for field in fields if field is not None), default=None)


def _merge_probes(probes: Sequence[Probe], launch: LaunchId) -> Probe | Failure:
    """Return the probe of the first process, with the hosts of all processes.

    Returns a Failure of the kind WRONG_WORLD if versions or devices differ between processes.
    """
    first = _properties_of_probe(probes[0])
    for index, probe in enumerate(probes):
        properties = _properties_of_probe(probe)
        names = [name for name in first | properties if first.get(name) != properties.get(name)]
        if names:
            message = (
                f"process {index}{_hosts_text(probe)} has {_properties_text(properties, names)}, "
                f"process 0{_hosts_text(probes[0])} {_properties_text(first, names)}"
            )
            return Failure(kind=FailureKind.WRONG_WORLD, message=message, launch=launch)
    return replace(
        probes[0], process_hosts=tuple(host for probe in probes for host in probe.process_hosts)
    )


def _properties_of_probe(probe: Probe) -> dict[str, object]:
    """Return the versions and device properties that must be equal in all processes, by name."""
    devices = {
        f"{devices.device.value} {name}": value
        for devices in probe.devices
        for name, value in wire.to_json(devices).items()
    }
    return {**probe.versions, **devices}


def _properties_text(properties: Mapping[str, object], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {properties.get(name, 'missing')}" for name in names)


def _hosts_text(probe: Probe) -> str:
    return f" ({', '.join(probe.process_hosts)})" if probe.process_hosts else ""


def _disagreement_failure(subject: str, launch: LaunchId) -> Failure:
    """Return the failure of a launch whose processes replied with different values of a field.

    `subject` names the field in the message.
    """
    message = f"the processes disagree on {subject}"
    return Failure(kind=FailureKind.CRASHED, message=message, launch=launch)

"""The processes of one launch, which take each request together and have one deadline.

A single process is a group of one. If one of several processes dies, times out or fails, the
request fails for all and the group is over: its other members would wait for that process forever.
All processes agree on every call's time: where two times differ the group is out of step, and no
time of the group is a result.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw import wire
from busbw.model.cluster import ALONE, Cluster, ClusterMember
from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.machine import Probe
from busbw.model.words import FailureKind

from .logs import failure_of
from .transport import Ending, Exit, Reply, Request, Starter, T, Transport, Worker

# How long the others are watched after one failed: the cause may show there a little later.
CAUSE_GRACE_S = 0.5

# How long processes that refuse a request together may take to do so, one after the other.
REFUSAL_GRACE_S = 10.0

# Of a Run, the fields that processes must agree on, and those of which the largest value counts.
_AGREED = ("iterations", "samples_s", "clock", "proof", "clocks_s", "dispatch_s", "injected")
_LARGEST = ("compile_s", "peak_memory_bytes", "predicted_memory_bytes", "compiled_memory_bytes")


class Group:
    """Running workers, in the order of their indices."""

    def __init__(
        self,
        transport: Transport,
        starter: Starter,
        launch: LaunchId,
        cluster: Cluster = ALONE,
    ) -> None:
        self.launch = launch
        self.cluster = cluster
        self.starter = starter
        self.members: list[Worker] = []
        places: Sequence[ClusterMember | None] = (None,)
        try:
            if cluster != ALONE:
                places = transport.cluster_members(cluster)
            for place in places:
                name = launch if place is None else launch.of_member(f"worker{place.index}")
                self.members.append(transport.start(starter, name, place))
        except BaseException:
            self.kill()
            raise

    @property
    def is_over(self) -> bool:
        return not self.members

    def begin(self, timeout_s: float, doing: str = "starting") -> Failure | None:
        """Wait until all are ready."""
        answers = self.ask_each(None, timeout_s, doing)
        return answers if isinstance(answers, Failure) else None

    def ask(self, request: Request[T], timeout_s: float, doing: str) -> T | Failure:
        """Return the one answer of all processes; a Failure if any of them gave none.

        After a Failure that all of them answered the group goes on, else it `is_over`.
        """
        answers = self.ask_each(request, timeout_s, doing)
        if isinstance(answers, Failure):
            return answers
        answer: T | Failure = merge(answers, self.launch)
        have_refused = all(isinstance(answer, Failure) for answer in answers)
        if isinstance(answer, Failure) and not have_refused:
            self.kill()
        return answer

    def ask_each(
        self, request: Request[T] | None, timeout_s: float, doing: str
    ) -> Sequence[T | Failure] | Failure:
        """Send each member the request and wait for all answers, all within `timeout_s`.

        Without a request it waits until each member is ready. `doing` describes the request in
        messages. A Failure in place of answers names the process if there are several; every
        member has been killed then.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self.kill)
            answers = self._exchange(request, timeout_s, doing)
            if not isinstance(answers, Failure):
                stack.pop_all()
            return answers

    def close(self) -> bool:
        """Have all processes exit by themselves; tell whether they did."""
        try:
            # Processes of one framework end together.
            for member in self.members:
                member.end(Ending.CLOSE)
            exits = [member.finish(Ending.CLOSE) for member in self.members]
        finally:
            self.kill()
        return all(end.exit_code is not None for end in exits)

    def interrupt(self) -> None:
        """Kill all processes, from any thread; the thread that waits for them sees their end."""
        for member in list(self.members):
            member.end(Ending.KILL)

    def kill(self) -> None:
        self.interrupt()
        while self.members:
            self.members.pop().wait()

    def _exchange(
        self, request: Request[Any] | None, timeout_s: float, doing: str
    ) -> Sequence[Any] | Failure:
        deadline_s = time.monotonic() + timeout_s
        for member in self.members:
            member.send(request)
        answers: dict[int, Any] = {}
        while len(answers) < len(self.members):
            seen = self._watch(range(len(self.members)), deadline_s)
            causes = {index: end for index, end in seen.items() if isinstance(end, Exit)}
            # A member that talks without end may not hold up the deadline.
            is_late = not seen or time.monotonic() >= deadline_s
            if causes or (is_late and _has_failure(answers)):
                return self._cause(causes or answers, doing)
            if is_late:
                silent = [index for index in range(len(self.members)) if index not in answers]
                return self._time_out(self._stopped(silent) or silent, doing)
            answers |= {
                index: reply.answer for index, reply in seen.items() if isinstance(reply, Reply)
            }
            if _has_failure(answers):
                # The others say the same soon, or wait for that process for ever.
                deadline_s = min(deadline_s, time.monotonic() + REFUSAL_GRACE_S)
        return [answers[index] for index in sorted(answers)]

    def _watch(self, indices: Iterable[int], end_s: float) -> dict[int, Reply | Exit | None]:
        """Return what members replied or how they ended, as soon as one does; nothing in time."""
        # `select.select` takes no descriptor from 1024 on, which a few hundred hosts have.
        poll = select.poll()
        watched = {self.members[index].fileno(): index for index in indices}
        for descriptor in watched:
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(1000 * max(0.0, end_s - time.monotonic()))
        return {watched[fd]: self.members[watched[fd]].receive() for fd, _ in ready}

    def _cause(self, causes: Mapping[int, Any], doing: str) -> Failure:
        """Return the failure of the process that is the likely cause of the others' ends."""
        causes = {index: end for index, end in causes.items() if isinstance(end, Exit | Failure)}
        watched = {*range(len(self.members))} - {*causes}
        end_s = time.monotonic() + CAUSE_GRACE_S
        while watched and time.monotonic() < end_s:
            for index, seen in self._watch(watched, end_s).items():
                watched.discard(index)
                answer = seen.answer if isinstance(seen, Reply) else seen
                if isinstance(answer, Exit | Failure):
                    causes[index] = answer
        others = [index for index in range(len(self.members)) if index not in causes]
        if stopped := self._stopped(others):
            # The framework has told the others that it does not hear from a stopped process.
            return self._time_out(stopped, doing)
        index = min(causes, key=lambda index: _rank_of_cause(causes[index]))
        return self._failure([index], causes[index], doing)

    def _stopped(self, indices: Iterable[int]) -> list[int]:
        return [index for index in indices if self.members[index].is_stopped]

    def _time_out(self, indices: Sequence[int], doing: str) -> Failure:
        """Return the failure of members that did not reply, with the stack of the first."""
        return self._failure(indices, self.members[indices[0]].finish(Ending.STACK), doing)

    def _failure(self, indices: Sequence[int], end: Exit | Failure, doing: str) -> Failure:
        """Return the failure of the first member, in the name of all `indices`."""
        if isinstance(end, Exit):
            end = failure_of(end, self.members[indices[0]].launch, doing)
        names = ", ".join(self._name(index) for index in indices)
        return replace(end, message=f"{names}: {end.message}") if names else end

    def _name(self, index: int) -> str:
        name = "" if self.cluster == ALONE else f"worker {index}"
        return " on ".join(filter(None, (name, self.members[index].host)))


def _has_failure(answers: Mapping[int, object]) -> bool:
    return any(isinstance(answer, Failure) for answer in answers.values())


def _rank_of_cause(end: Exit | Failure) -> int:
    """Order likely causes first: a host lost, a process killed, one that exited, a failure."""
    if isinstance(end, Failure):
        return 3
    if end.lost:
        return 0
    return 1 if end.exit_code is not None and end.exit_code < 0 else 2


def merge(answers: Sequence[Any], launch: LaunchId) -> Any:
    """Return the group's reply, of launch `launch`; a Failure where the processes disagree."""
    for answer in answers:
        if isinstance(answer, Failure):
            return replace(answer, launch=launch)
    first = answers[0]
    if isinstance(first, Run):
        return _merge_runs(answers, launch)
    if isinstance(first, Probe):
        return _merge_probes(answers, launch)
    return first if all(answer == first for answer in answers) else _disagree("answers", launch)


def _merge_runs(runs: Sequence[Run], launch: LaunchId) -> Run | Failure:
    for name in _AGREED:
        if any(getattr(run, name) != getattr(runs[0], name) for run in runs):
            return _disagree(name, launch)
    largest: dict[str, Any] = {name: _largest(runs, name) for name in _LARGEST}
    values_checked = sum(run.values_checked for run in runs)
    return replace(runs[0], launch=launch, values_checked=values_checked, **largest)


def _largest(values: Sequence[object], name: str) -> Any:
    """Return the largest value of a field, None where no process knows it."""
    fields = (getattr(value, name) for value in values)
    return max((field for field in fields if field is not None), default=None)


def _merge_probes(probes: Sequence[Probe], launch: LaunchId) -> Probe | Failure:
    """Return what all processes reach; WRONG_WORLD where versions or devices differ."""
    first = _features(probes[0])
    for index, probe in enumerate(probes):
        features = _features(probe)
        names = [name for name in first | features if first.get(name) != features.get(name)]
        if names:
            message = (
                f"process {index}{_hosts(probe)} has {_text(features, names)}, "
                f"process 0{_hosts(probes[0])} {_text(first, names)}"
            )
            return Failure(kind=FailureKind.WRONG_WORLD, message=message, launch=launch)
    return replace(
        probes[0],
        least_memory_bytes=_largest(probes, "least_memory_bytes"),
        hosts=tuple(host for probe in probes for host in probe.hosts),
    )


def _features(probe: Probe) -> dict[str, object]:
    """Return the versions of packages, and the properties of devices, by name."""
    devices = {
        f"{devices.device.value} {name}": value
        for devices in probe.devices
        for name, value in wire.to_json(devices).items()
    }
    return {**probe.versions, **devices}


def _text(features: Mapping[str, object], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {features.get(name, 'missing')}" for name in names)


def _hosts(probe: Probe) -> str:
    return f" ({', '.join(probe.hosts)})" if probe.hosts else ""


def _disagree(subject: str, launch: LaunchId) -> Failure:
    message = f"the processes disagree on {subject}"
    return Failure(kind=FailureKind.CRASHED, message=message, launch=launch)

"""The processes of one launch, asked together: one deadline, and one answer made of all answers.

A single process is a group of one. If one of several dies, times out or fails, the request fails
for all and the group is over: its other members would wait for that one forever. They agree on
every call's time: where two differ the group is out of step, and none of it is a result.
"""

from __future__ import annotations

import itertools
import select
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw.model.cluster import ALONE, Cluster
from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.machine import DeviceSet, Probe
from busbw.model.words import FailureKind

from .transport import Ended, Member, Reply, Request, Starter, T, Transport, failure_of

# None: a part of a reply.
Seen = Reply | Ended | None

# How long the others are watched after one failed: the cause may show there a little later.
CAUSE_GRACE_S = 0.5

# How long processes that refuse a request together may take to do so, one after the other.
REFUSAL_GRACE_S = 10.0


class Group:
    """Running workers, by their index."""

    def __init__(
        self,
        transport: Transport,
        starter: Starter,
        launch: LaunchId,
        cluster: Cluster = ALONE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.launch = launch
        self.cluster = cluster
        self._clock = clock
        self.members: dict[int, Member] = {}
        try:
            if cluster == ALONE:
                self.members[0] = transport.start(starter, launch, None)
                return
            for member in transport.cluster_members(cluster):
                name = launch.of_member(f"worker{member.index}")
                self.members[member.index] = transport.start(starter, name, member)
        except BaseException:
            self.kill()
            raise

    @property
    def is_over(self) -> bool:
        return not self.members

    def begin(self, timeout_s: float, doing: str = "starting") -> Failure | None:
        """Wait until all are ready."""
        requests = dict[int, Request[None] | None].fromkeys(self.members)
        answers = self.ask_each(requests, timeout_s, doing)
        return answers if isinstance(answers, Failure) else None

    def ask(self, request: Request[T], timeout_s: float, doing: str) -> T | Failure:
        """The one answer of all processes; a Failure if any gave none.

        After a Failure that all of them answered themselves it goes on, else it `is_over`.
        Raises ValueError if it was over before.
        """
        if self.is_over:
            raise ValueError(f"the process of launch {self.launch} is over")
        requests = dict.fromkeys(self.members, request)
        answers = self.ask_each(requests, timeout_s, doing, together=True)
        if isinstance(answers, Failure):
            return answers
        if self.cluster == ALONE:
            return next(iter(answers.values()))
        answer: T | Failure = merged(answers, self.launch)
        refused = all(isinstance(one, Failure) for one in answers.values())
        if isinstance(answer, Failure) and not refused:
            self.kill()
        return answer

    def ask_each(
        self,
        requests: Mapping[int, Request[T] | None],
        timeout_s: float,
        doing: str,
        *,
        together: bool = False,
    ) -> Mapping[int, T | Failure] | Failure:
        """Send each member its request and wait for all replies, all within `timeout_s`.

        A member without a request is watched: its end is a Failure, too. `doing` describes the
        request in messages. A Failure names the process if there are several. After it every member
        has been killed, except a single process that answered it itself. Those that do something
        `together` may all refuse it, each with a Failure of its own, and go on.
        Raises ValueError for an index that no member has.
        """
        for index in requests:
            if index not in self.members:
                raise ValueError(f"there is no {_name(index)} in this group")
        try:
            answers = self._asked(requests, timeout_s, doing, together=together)
        except BaseException:
            self.kill()
            raise
        if isinstance(answers, Failure):
            self.kill()
        return answers

    def close(self) -> bool:
        members, self.members = self.members, {}
        for member in members.values():
            # Processes of one framework end together.
            member.hang_up()
        try:
            return all([member.close() for member in members.values()])
        except BaseException:
            self.members = members
            self.kill()
            raise

    def interrupt(self) -> None:
        for member in list(self.members.values()):
            member.interrupt()

    def kill(self) -> None:
        members, self.members = self.members, {}
        for member in members.values():
            member.interrupt()
        for member in members.values():
            member.kill()

    def _asked(
        self,
        requests: Mapping[int, Request[Any] | None],
        timeout_s: float,
        doing: str,
        *,
        together: bool,
    ) -> Mapping[int, Any] | Failure:
        deadline_s = self._clock() + timeout_s
        for index, member in self.members.items():
            member.send(requests.get(index))
        answers: dict[int, Any] = {}
        while len(answers) < len(requests):
            seen = _seen(self.members, deadline_s - self._clock())
            failed = {
                index: one
                for index, one in seen.items()
                if (isinstance(one, Ended) if together else self._failed(one))
            }
            # A member that talks without end may not hold up the deadline.
            is_over = not seen or self._clock() >= deadline_s
            if is_over and not failed:
                failed = {
                    index: Reply(one) for index, one in answers.items() if isinstance(one, Failure)
                }
            if failed:
                return self._cause(failed, doing)
            if is_over:
                return self._silent([index for index in requests if index not in answers], doing)
            for index, one in seen.items():
                if isinstance(one, Reply) and index in requests:
                    answers[index] = one.answer
            if any(isinstance(one, Failure) for one in answers.values()):
                # The others say the same soon, or wait for it for ever.
                deadline_s = min(deadline_s, self._clock() + REFUSAL_GRACE_S)
        return {index: answers[index] for index in requests}

    def _failed(self, seen: Seen) -> bool:
        """Whether it fails the group: a single process may answer with a Failure and go on."""
        answered = isinstance(seen, Reply) and isinstance(seen.answer, Failure)
        return isinstance(seen, Ended) or (answered and self.cluster != ALONE)

    def _silent(self, indices: Sequence[int], doing: str) -> Failure:
        """With the first one's stack; of those that are stopped, as the others wait for them."""
        indices = self._stopped(indices) or indices
        return self._failure(indices, self.members[indices[0]].timed_out(), doing)

    def _stopped(self, indices: Iterable[int]) -> list[int]:
        return [index for index in indices if self.members[index].is_stopped]

    def _cause(self, failed: Mapping[int, Seen], doing: str) -> Failure:
        found = dict(failed)
        end_s = self._clock() + CAUSE_GRACE_S
        watched = {index: one for index, one in self.members.items() if index not in found}
        while watched and self._clock() < end_s:
            for index, seen in _seen(watched, end_s - self._clock()).items():
                del watched[index]
                if self._failed(seen):
                    found[index] = seen
        stopped = self._stopped(index for index in self.members if index not in found)
        if stopped:
            # The framework has told the others that it does not hear from this one.
            return self._silent(stopped, doing)
        index = min(found, key=lambda one: _suspicion(found[one]))
        return self._failure([index], found[index], doing)

    def _failure(self, indices: Sequence[int], seen: Seen, doing: str) -> Failure:
        """Of the first of `indices`, in the name of all."""
        if isinstance(seen, Ended):
            failure = failure_of(seen, self.members[indices[0]].launch, doing)
        else:
            assert seen is not None and isinstance(seen.answer, Failure)
            failure = seen.answer
        names = ", ".join(self._name(index) for index in indices)
        return replace(failure, message=f"{names}: {failure.message}") if names else failure

    def _name(self, index: int) -> str:
        name, host = "" if self.cluster == ALONE else _name(index), self.members[index].host
        return f"{name} on {host}" if name and host else name or host


def _name(index: int) -> str:
    return f"worker {index}"


def _seen(members: Mapping[int, Member], timeout_s: float) -> dict[int, Seen]:
    """What members said or how they ended, as soon as one does; empty after `timeout_s`."""
    # `select.select` takes no descriptor from 1024 on, which a few hundred hosts have.
    waiting, indices = select.poll(), {one.fileno(): index for index, one in members.items()}
    for descriptor in indices:
        waiting.register(descriptor, select.POLLIN)
    ready = waiting.poll(1000 * max(0.0, timeout_s))
    return {indices[descriptor]: members[indices[descriptor]].received() for descriptor, _ in ready}


def _suspicion(seen: Seen) -> int:
    """A sort key, likely causes first: a host lost, one killed, one that exited, an answer."""
    if not isinstance(seen, Ended):
        return 2
    if seen.lost:
        return -1
    return 0 if seen.exit_code is not None and seen.exit_code < 0 else 1


# Of a Run, what processes must agree on.
_AGREED = ("iterations", "samples_s", "clock", "proof", "clocks_s", "dispatch_s", "injected")


def merged(answers: Mapping[int, Any], launch: LaunchId) -> Any:
    """The group's answer, of launch `launch`; a Failure CRASHED where the processes disagree."""
    found = list(answers.values())
    for one in found:
        if isinstance(one, Failure):
            return replace(one, launch=launch)
    if len(runs := [one for one in found if isinstance(one, Run)]) == len(found):
        return _of_runs(runs, launch)
    if len(probes := [one for one in found if isinstance(one, Probe)]) == len(found):
        return _of_probes(probes, launch)
    return found[0] if all(one == found[0] for one in found) else _disagree("answers", launch)


def _of_runs(runs: Sequence[Run], launch: LaunchId) -> Run | Failure:
    first = runs[0]
    for name in _AGREED:
        if any(getattr(one, name) != getattr(first, name) for one in runs):
            return _disagree(name, launch)
    return replace(
        first,
        launch=launch,
        values_checked=sum(run.values_checked for run in runs),
        compile_s=max(run.compile_s for run in runs),
        peak_memory_bytes=_largest(run.peak_memory_bytes for run in runs),
        predicted_memory_bytes=_largest(run.predicted_memory_bytes for run in runs),
        compiled_memory_bytes=_largest(run.compiled_memory_bytes for run in runs),
    )


def _largest(counts: Iterable[int | None]) -> int | None:
    return max((one for one in counts if one is not None), default=None)


def _of_probes(probes: Sequence[Probe], launch: LaunchId) -> Probe | Failure:
    """What all of them reach; WRONG_WORLD where they have other versions or other devices."""
    first = probes[0]
    for index, one in enumerate(probes):
        differ = _other_versions(one, first) or _other_devices(one, first)
        if differ:
            text = f"process {index}{_on(one)} has {differ[0]}, process 0{_on(first)} {differ[1]}"
            return Failure(kind=FailureKind.WRONG_WORLD, message=text, launch=launch)
    hosts = tuple(host for one in probes for host in one.hosts)
    least_bytes = _largest(one.least_memory_bytes for one in probes)
    return replace(first, least_memory_bytes=least_bytes, hosts=hosts)


def _other_versions(one: Probe, other: Probe) -> tuple[str, str] | None:
    names = sorted(
        name
        for name in {*one.versions, *other.versions}
        if one.versions.get(name) != other.versions.get(name)
    )
    ours, theirs = (
        ", ".join(f"{name} {probe.versions.get(name, 'missing')}" for name in names)
        for probe in (one, other)
    )
    return (ours, theirs) if names else None


def _other_devices(one: Probe, other: Probe) -> tuple[str, str] | None:
    for ours, theirs in itertools.zip_longest(one.devices, other.devices):
        if ours != theirs:
            return _device_text(ours), _device_text(theirs)
    return None


def _device_text(found: DeviceSet | None) -> str:
    if found is None:
        return "none"
    cores = f" of {found.cores} cores" if found.cores is not None else ""
    return f"{found.device_kind}{cores}, {found.ranks} ranks"


def _on(probe: Probe) -> str:
    return f" ({', '.join(probe.hosts)})" if probe.hosts else ""


def _disagree(what: str, launch: LaunchId) -> Failure:
    return Failure(
        kind=FailureKind.CRASHED, message=f"the processes disagree on {what}", launch=launch
    )

"""Several workers with roles, asked together: one deadline, and one answer made of all answers.

What a group is, not how a process comes to be: that is `start`, which gets a place and gives a
worker. One that dies, is silent or fails, fails the request for all, and the group is over: its
other members would wait for that one for ever.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from busbw import wire
from busbw.model import Failure, LaunchId

from .bundle import Bundle
from .endings import Ended, failure_of
from .places import Place, Role
from .process import Starter, Worker

Start = Callable[[Place], Worker]
Answers = Mapping[Role, tuple[str, Any]]

# So long the others are watched after one failed: what killed it may be seen there, later.
CAUSE_GRACE_S = 0.5


@dataclass(frozen=True, kw_only=True)
class LocalStart:
    """Starts members on this host: ordinary workers, told their place by the environment."""

    starter: Starter
    bundle: Bundle
    launch: LaunchId

    def __call__(self, place: Place) -> Worker:
        """A worker at `place`; its launch names its role, such as ``1.ps0``."""
        environment = {**self.starter.environment, **place.environment}
        starter = replace(self.starter, environment=environment)
        role = place.role
        return Worker(starter, self.bundle, self.launch.of_member(f"{role.task}{role.index}"))


class Group:
    """Running workers, by role. A context manager: whatever ends it, no member is left."""

    def __init__(
        self,
        places: Sequence[Place],
        start: Start,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._members: dict[Role, Worker] = {}
        try:
            for place in places:
                self._members[place.role] = start(place)
        except BaseException:
            self.kill()
            raise

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
    def members(self) -> Mapping[Role, Worker]:
        """Who belongs to it; empty when it is over."""
        return self._members

    def ready(self, timeout_s: float) -> Answers | Failure:
        """Wait until all have said that they are."""
        return self.ask(dict.fromkeys(self._members), timeout_s, "starting")

    def ask(
        self, requests: Mapping[Role, Mapping[str, Any] | None], timeout_s: float, doing: str
    ) -> Answers | Failure:
        """Send each member its request and wait for all replies, all within `timeout_s`.

        Who has no request is watched: its end is a Failure too. `doing` names the request in
        words. After a Failure, which names the role, every member has been ended.
        Raises ValueError for a role that no member has.
        """
        for role in requests:
            if role not in self._members:
                raise ValueError(f"there is no {role.name} in this group")
        try:
            answers = self._asked(requests, timeout_s, doing)
        except BaseException:
            self.kill()
            raise
        if isinstance(answers, Failure):
            self.kill()
        return answers

    def kill(self) -> None:
        """End every member."""
        members, self._members = self._members, {}
        for member in members.values():
            member.interrupt()
        for member in members.values():
            member.kill()

    def _asked(
        self, requests: Mapping[Role, Mapping[str, Any] | None], timeout_s: float, doing: str
    ) -> Answers | Failure:
        deadline_s = self._clock() + timeout_s
        for role, member in self._members.items():
            member.send(requests.get(role))
        answers: dict[Role, tuple[str, Any]] = {}
        while len(answers) < len(requests):
            seen = self._seen(deadline_s - self._clock())
            if not seen:
                silent = [role for role in requests if role not in answers]
                return self._silent(silent, doing)
            failed = {role: one for role, one in seen.items() if _failed(one)}
            if failed:
                return self._cause(failed, doing)
            answers.update({role: one for role, one in seen.items() if isinstance(one, tuple)})
        return answers

    def _seen(self, timeout_s: float) -> dict[Role, tuple[str, Any] | Ended | None]:
        """What members said or how they ended, as soon as one does; empty after `timeout_s`."""
        ready, _, _ = select.select(list(self._members.values()), [], [], max(0.0, timeout_s))
        return {role: one.received() for role, one in self._members.items() if one in ready}

    def _silent(self, roles: Sequence[Role], doing: str) -> Failure:
        """None of `roles` answered in time: the first one's stack, and who else."""
        first = roles[0]
        ended = self._members[first].hung()
        others = "".join(f", {role.name}" for role in roles[1:])
        failure = failure_of(ended, self._members[first].launch, doing)
        return replace(failure, message=f"{first.name}{others}: {failure.message}")

    def _cause(self, failed: Mapping[Role, tuple[str, Any] | Ended | None], doing: str) -> Failure:
        """The Failure of the one that most likely took the others with it."""
        found = dict(failed)
        end_s = self._clock() + CAUSE_GRACE_S
        watched = {role: one for role, one in self._members.items() if role not in found}
        while watched and self._clock() < end_s:
            ready, _, _ = select.select(
                list(watched.values()), [], [], max(0.0, end_s - self._clock())
            )
            for role in [role for role, one in watched.items() if one in ready]:
                answer = watched.pop(role).received()
                if _failed(answer):
                    found[role] = answer
        role = min(found, key=lambda one: _suspicion(found[one]))
        return self._failure(role, found[role], doing)

    def _failure(self, role: Role, answer: tuple[str, Any] | Ended | None, doing: str) -> Failure:
        if isinstance(answer, tuple):
            failure = wire.from_json(Failure, answer[1], role.name)
        else:
            assert answer is not None
            failure = failure_of(answer, self._members[role].launch, doing)
        return replace(failure, message=f"{role.name}: {failure.message}")


def _failed(answer: tuple[str, Any] | Ended | None) -> bool:
    return isinstance(answer, Ended) or (answer is not None and answer[0] == "Failure")


def _suspicion(answer: tuple[str, Any] | Ended | None) -> int:
    """Smallest for what is a cause: a process killed, one that ended, one that only complains."""
    if not isinstance(answer, Ended):
        return 2
    return 0 if answer.exit_code is not None and answer.exit_code < 0 else 1

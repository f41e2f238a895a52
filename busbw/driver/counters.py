"""What devices count, read between cases by a process of its own on each host.

One that does not answer in time is killed, and nothing is read any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.model.counters import Counted, Reading
from busbw.model.launch import Failure, LaunchId

from .executor import Executor
from .group import Group
from .transport import Request, Starter

_TIMEOUT_S = 10.0
_NAME = "counters"


@dataclass
class Counters:
    """`starter` is None where there is nothing to read; `first` and `last` are by host."""

    executor: Executor
    starter: Starter | None = None
    first: dict[str, Reading] = field(default_factory=dict)
    last: dict[str, Reading] = field(default_factory=dict)
    _group: Group | None = None

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The first and the last of each host."""
        return tuple(one for pair in zip(self.first.values(), self.last.values()) for one in pair)

    def since(self) -> Counted:
        """What has changed since this was asked before, at first nothing."""
        counted = Counted()
        for host, now in self._read().items():
            whose = f"{host}, " if len(self.last) > 1 else ""
            if host in self.last:
                counted = counted.plus(Counted.between(self.last[host], now, whose))
            self.first.setdefault(host, now)
            self.last[host] = now
        return counted

    def _read(self) -> Mapping[str, Reading]:
        if self.starter is None:
            return {}
        if self._group is None or self._group.is_over:
            group = self.executor.open(self.starter, LaunchId(name=_NAME))
            if isinstance(group, Failure):
                return self._give_up(group.message)
            self._group = group
        request = Request(_NAME, Reading)
        answers = self._group.ask_each(request, _TIMEOUT_S, "reading what devices count")
        if isinstance(answers, Failure):
            return self._give_up(answers.message)
        # Of several processes on a host one is enough.
        found = {one.host: one for one in answers if isinstance(one, Reading)}
        problem = next((one.problem for one in found.values() if one.problem), "")
        return self._give_up(problem) if problem else found

    def _give_up(self, why: str) -> Mapping[str, Reading]:
        self.starter = None
        if self._group is not None:
            self._group.kill()
        self.executor.on_note(f"what devices count of themselves is not read: {why}")
        return {}

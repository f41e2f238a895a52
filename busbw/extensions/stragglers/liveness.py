"""Find the hosts that do not answer, and go on with the others.

In a pair that gives no time, one host or both do not answer. Each is measured again with hosts that
answer. A host is unreachable when it has failed with several of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

# Names of hosts, sorted; and groups that share no host and are measured at once.
Group = tuple[str, ...]
Round = tuple[Group, ...]
# Seconds by quantity.
Times = Mapping[str, float]
# Measures groups of hosts at once: the times of each group, or the reason why it has none.
Measure = Callable[[Round], Sequence[Times | str]]

# The number of answering partners with which an unreachable host has failed, and the number of
# successive rounds without any answer after which none is expected.
_FAILED_PARTNERS, _MOST_SILENT_ROUNDS = 2, 3


class NoHostAnswersError(Exception):
    """No group gives a time any more; the message is the reason of the last one."""


@dataclass
class Liveness:
    """Hosts, and which of them are `unreachable`, with the reasons.

    `reasons` has the last reason of each group without a time, the latest at the end.
    """

    hosts: Sequence[str]
    measure: Measure
    chance: random.Random
    unreachable: dict[str, str] = field(default_factory=dict)
    reasons: dict[Group, str] = field(default_factory=dict)
    _answering: set[str] = field(default_factory=set)
    # Hosts without an answer, until that is decided, and the partners with which they had none.
    _silent: dict[str, set[str]] = field(default_factory=dict)
    _silent_rounds: int = 0

    @property
    def reachable(self) -> list[str]:
        return [host for host in self.hosts if host not in self.unreachable]

    def measure_round(self, groups: Iterable[Group]) -> dict[Group, Times]:
        """Return the times of the groups that answer, without their unreachable hosts.

        Raises NoHostAnswersError.
        """
        reachable = [tuple(h for h in group if h not in self.unreachable) for group in groups]
        times = self._measure(tuple(group for group in reachable if len(group) > 1))
        self._silent_rounds = 0 if self._answering else self._silent_rounds + 1
        if self._silent_rounds >= _MOST_SILENT_ROUNDS:
            raise NoHostAnswersError(next(reversed(self.reasons.values())))
        while self._silent and self._answering:
            self._measure_silent()
        return times

    def _measure(self, groups: Round) -> dict[Group, Times]:
        times: dict[Group, Times] = {}
        for group, answer in zip(groups, self.measure(groups) if groups else ()):
            if isinstance(answer, str):
                self.reasons.pop(group, None)
                self.reasons[group] = answer
                self._answering.difference_update(group)
                for host in group:
                    # In a larger group it may be that another host did not answer.
                    partners = {*group} - {host} if len(group) == 2 else set()
                    self._silent.setdefault(host, set()).update(partners)
            else:
                times[group] = answer
                self._answering.update(group)
                for host in group:
                    self._silent.pop(host, None)
        return times

    def _measure_silent(self) -> None:
        """Measure each silent host with an answering host with which it has not failed yet."""
        answering = sorted(self._answering)
        self.chance.shuffle(answering)
        pairs = []
        for host, failed in self._silent.items():
            partner = next((h for h in answering if h not in failed), None)
            if partner is not None:
                answering.remove(partner)
                pairs.append(pair(host, partner))
        self._measure(tuple(pairs))
        for host, failed in list(self._silent.items()):
            if len(failed & self._answering) >= _FAILED_PARTNERS or not pairs:
                del self._silent[host]
                latest = reversed(self.reasons.items())
                self.unreachable[host] = next(reason for group, reason in latest if host in group)


def pair(first: str, second: str) -> Group:
    return (min(first, second), max(first, second))

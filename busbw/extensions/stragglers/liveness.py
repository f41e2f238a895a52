"""Find the hosts that do not answer, and go on with the other hosts.

If a pair has no time, one or both of its hosts do not answer. So each of the two hosts is measured
again with hosts that answer. A host is unreachable after it has failed with several such hosts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

# A group is the sorted names of its hosts. A round has groups without a common host, which are
# measured at once.
HostGroup = tuple[str, ...]
Round = tuple[HostGroup, ...]
# Seconds by quantity, such as ``all-reduce 16M``.
TimesByQuantity = Mapping[str, float]
# Measures a round, and returns the times of each group, or the reason why the group has no times.
MeasureGroups = Callable[[Round], Sequence[TimesByQuantity | str]]

# A host is unreachable after it has failed with this many hosts that answer. The search ends after
# this many successive rounds without an answer.
_MIN_FAILED_PARTNERS, _MAX_SILENT_ROUNDS = 2, 3


class NoHostAnswersError(Exception):
    """No group of hosts has a time any more; the message is the reason of the last group."""


@dataclass
class Liveness:
    """Measures rounds of groups, and finds the hosts that do not answer.

    `unreachable` contains the hosts that are not measured any more, with the reason. `reasons`
    contains, for each group without a time, the reason of its last failure; the group that failed
    last is the last key.
    """

    hosts: Sequence[str]
    measure_groups: MeasureGroups
    rng: random.Random
    unreachable: dict[str, str] = field(default_factory=dict)
    reasons: dict[HostGroup, str] = field(default_factory=dict)
    _answering_hosts: set[str] = field(default_factory=set)
    # The hosts without an answer that are still measured, and the partners with which each failed.
    _silent_hosts: dict[str, set[str]] = field(default_factory=dict)
    _silent_round_count: int = 0

    @property
    def reachable(self) -> list[str]:
        return [host for host in self.hosts if host not in self.unreachable]

    def measure_round(self, groups: Iterable[HostGroup]) -> dict[HostGroup, TimesByQuantity]:
        """Measure a round without unreachable hosts, and return the times of groups that answer.

        Hosts that do not answer are then measured with other hosts, until it is clear whether they
        are unreachable. Raises NoHostAnswersError after several successive rounds without an
        answer.
        """
        reachable = [tuple(h for h in group if h not in self.unreachable) for group in groups]
        times = self._measure_groups(tuple(group for group in reachable if len(group) > 1))
        self._silent_round_count = 0 if self._answering_hosts else self._silent_round_count + 1
        if self._silent_round_count >= _MAX_SILENT_ROUNDS:
            raise NoHostAnswersError(next(reversed(self.reasons.values())))
        while self._silent_hosts and self._answering_hosts:
            self._measure_silent_hosts()
        return times

    def _measure_groups(self, groups: Round) -> dict[HostGroup, TimesByQuantity]:
        """Measure groups, and return the times of the groups that answer.

        Also note the hosts of the groups that do not answer.
        """
        times: dict[HostGroup, TimesByQuantity] = {}
        for group, answer in zip(groups, self.measure_groups(groups) if groups else ()):
            if isinstance(answer, str):
                self.reasons.pop(group, None)
                self.reasons[group] = answer
                self._answering_hosts.difference_update(group)
                for host in group:
                    # In a larger group, a host other than the partner may not have answered.
                    partners = {*group} - {host} if len(group) == 2 else set()
                    self._silent_hosts.setdefault(host, set()).update(partners)
            else:
                times[group] = answer
                self._answering_hosts.update(group)
                for host in group:
                    self._silent_hosts.pop(host, None)
        return times

    def _measure_silent_hosts(self) -> None:
        """Measure each host that has not answered with a host that answers and is a new partner.

        A host is given up as unreachable after it has failed with several partners, or if no new
        partner is left for any host.
        """
        answering = sorted(self._answering_hosts)
        self.rng.shuffle(answering)
        pairs = []
        for host, failed in self._silent_hosts.items():
            partner = next((h for h in answering if h not in failed), None)
            if partner is not None:
                answering.remove(partner)
                pairs.append(sorted_pair(host, partner))
        self._measure_groups(tuple(pairs))
        for host, failed in list(self._silent_hosts.items()):
            if len(failed & self._answering_hosts) >= _MIN_FAILED_PARTNERS or not pairs:
                del self._silent_hosts[host]
                latest = reversed(self.reasons.items())
                self.unreachable[host] = next(reason for group, reason in latest if host in group)


def sorted_pair(first: str, second: str) -> HostGroup:
    return (min(first, second), max(first, second))

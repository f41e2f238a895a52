"""Find the hosts that do not answer, and go on with the other hosts.

If a pair has no time, one or both of its hosts do not answer. So each of the two hosts is measured
again with hosts that answer. A host is unreachable after the host has failed with several
answering hosts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

# A group is the sorted names of its hosts. A round consists of groups without a common host, which
# are measured at the same time.
HostGroup = tuple[str, ...]
Round = tuple[HostGroup, ...]
# Seconds by quantity, such as ``all-reduce 16M``.
TimesByQuantity = Mapping[str, float]
# A function that measures a round. For each group of the round it returns the times, or the reason
# why the group has no times.
MeasureGroups = Callable[[Round], Sequence[TimesByQuantity | str]]

# A host is unreachable after it has failed with this many hosts that answer. The search ends after
# this many successive rounds without an answer.
_MIN_FAILED_PARTNERS, _MAX_SILENT_ROUNDS = 2, 3


class NoHostAnswersError(Exception):
    """The lack of times from all groups of hosts; the message is the reason of the last group."""


@dataclass
class Liveness:
    """The record of which hosts answer, kept up to date while rounds of groups are measured.

    Attributes:
        hosts: The names of all hosts.
        measure_groups: The function that measures a round.
        rng: The source of the random order in which partners are chosen.
        unreachable: Maps each host that is not measured any more to the reason.
        reasons: Maps each group without a time to the reason of its last failure. The group that
            failed last is the last key.

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
        """The names of the hosts that are still measured, in the order of `hosts`."""
        return [host for host in self.hosts if host not in self.unreachable]

    def measure_round(self, groups: Iterable[HostGroup]) -> dict[HostGroup, TimesByQuantity]:
        """Measure a round, and return the times of the groups that answer.

        Unreachable hosts are left out of their groups, and a group with fewer than two reachable
        hosts is not measured. Hosts that do not answer are then measured with answering hosts,
        until each host either answers or is unreachable. Raises NoHostAnswersError after several
        successive rounds without an answer.
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

        Also record the answering hosts, the silent hosts, and the reasons of silent groups.
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

        A host is given up as unreachable after the host has failed with several answering partners,
        or if no new partner is left for any host.
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
    """Return the group of two hosts, whose names are sorted."""
    return (min(first, second), max(first, second))

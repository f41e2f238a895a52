"""Who answers: groups of hosts are asked at once, and who is to blame for silence is found out.

A pair that gives no time has one host, or two, that do not answer: each is asked again with others
that have answered, until it answers itself or has failed with several that still answer others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .rounds import Group, Round, pair

# Seconds by quantity.
Times = Mapping[str, float]
# Measures groups of hosts at once: the times of each, or why there are none.
Measure = Callable[[Round], Sequence[Times | str]]

# With how many others that answer one must have failed; and after how many rounds in a row in
# which nobody answered nobody will.
_FAILURES, _MUTE = 2, 3


class NobodyAnswers(Exception):
    """No group gives a time any more; the message is why the last one did not."""


@dataclass
class Roll:
    """Hosts 0 to `count` - 1; those that are `dead` with why, and the `rounds` that it took.

    `why` has of each group that gave no time the last reason.
    """

    count: int
    measure: Measure
    chance: random.Random
    rounds: int = 0
    dead: dict[int, str] = field(default_factory=dict)
    why: dict[Group, str] = field(default_factory=dict)
    _answered: set[int] = field(default_factory=set)
    # Why there was no time, by host, and with whom, as long as that is not settled.
    _silent: dict[int, str] = field(default_factory=dict)
    _failed: dict[int, set[int]] = field(default_factory=dict)
    _mute: int = 0

    @property
    def alive(self) -> list[int]:
        return [host for host in range(self.count) if host not in self.dead]

    def ask(self, groups: Iterable[Group]) -> dict[Group, Times]:
        """Those that gave times, of what of them is alive. Raises NobodyAnswers."""
        asked = [tuple(host for host in one if host not in self.dead) for one in groups]
        found = self._round(tuple(one for one in asked if len(one) > 1))
        self._mute = 0 if self._answered else self._mute + 1
        if self._mute >= _MUTE:
            raise NobodyAnswers(next(iter(self._silent.values())))
        while self._silent and self._answered:
            self._ask_again()
        return found

    def _round(self, groups: Round) -> dict[Group, Times]:
        """Those of a group that gives no time are silent."""
        found: dict[Group, Times] = {}
        self.rounds += bool(groups)
        for group, taken in zip(groups, self.measure(groups) if groups else ()):
            if isinstance(taken, str):
                self.why[group] = taken
            for host in group:
                if isinstance(taken, str):
                    self._answered.discard(host)
                    self._silent[host] = taken
                    # Of a larger group another may have been to blame.
                    others = {*group} - {host} if len(group) == 2 else set()
                    self._failed.setdefault(host, set()).update(others)
                else:
                    self._answered.add(host)
                    self._silent.pop(host, None)
                    self._failed.pop(host, None)
            if not isinstance(taken, str):
                found[group] = taken
        return found

    def _ask_again(self) -> None:
        """Each of the silent with one that answers, and with which it has not failed yet."""
        partners = sorted(self._answered)
        self.chance.shuffle(partners)
        pairs = []
        for host in self._silent:
            other = next((one for one in partners if one not in self._failed[host]), None)
            if other is not None:
                partners.remove(other)
                pairs.append(pair(host, other))
        self._round(tuple(pairs))
        for host in list(self._silent):
            alive = self._failed[host] & self._answered
            if len(alive) >= _FAILURES or not pairs:
                self.dead[host] = self._silent.pop(host)

"""What sessions measured before today, as the history and baselines have it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .case import Case

# What surroundings call the machine's name and the hash of our own code that measured. The history
# has them, a baseline does not.
HOST = "host"
OWN_CODE = "busbw's own code"


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierSession:
    """What one session measured before today: seconds of each launch, by case.

    `regressed` are the cases that it found slower, `improved` those faster.
    `surroundings` are versions, flags, the host and the code of ours that measured. `parts` are the
    sessions that were joined to this one, none if it is one.
    """

    began: datetime.datetime
    times_s: Mapping[Case, tuple[float, ...]]
    regressed: frozenset[Case] = frozenset()
    improved: frozenset[Case] = frozenset()
    surroundings: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[EarlierSession, ...] = ()

    def joined(self, other: EarlierSession) -> EarlierSession:
        """As one session, which began when this one did."""
        times_s = dict(self.times_s)
        for case, more in other.times_s.items():
            times_s[case] = times_s.get(case, ()) + more
        return replace(
            self,
            times_s=times_s,
            regressed=self.regressed | other.regressed,
            improved=self.improved | other.improved,
            parts=(*(self.parts or (self,)), other),
        )

    def changes_since(self, before: EarlierSession) -> tuple[str, ...]:
        """What changed, such as ``jax 0.10.1 -> 0.10.2``, of what was known before."""
        return changes(before.surroundings, self.surroundings)


def changes(known: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    both = [name for name in now if name in known]
    gone = [name for name in known if name not in now and name not in (HOST, OWN_CODE)]
    return tuple(
        f"{name} {known[name]} -> {now.get(name, 'none')}"
        for name in both + gone
        if known[name] != now.get(name)
    )


def merged(
    sessions: Iterable[EarlierSession], apart: datetime.timedelta
) -> tuple[EarlierSession, ...]:
    """In the order of time; those that began less than `apart` after the first are one."""
    found: list[EarlierSession] = []
    for session in sorted(sessions, key=lambda one: one.began):
        if found and session.began - found[-1].began < apart:
            found[-1] = found[-1].joined(session)
        else:
            found.append(session)
    return tuple(found)

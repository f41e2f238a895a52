"""What a rule is given and what it answers: the seam between recordings and rules.

A rule sees no session's id, date or injection: it cannot know what it ought to find. Nothing
here draws or decides.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .corpus import RecordedLaunch, Side

# By payload in bytes, least first. Position i is the same pair of processes at every payload.
Pairs: TypeAlias = Mapping[int, tuple[RecordedLaunch, ...]]
Stored: TypeAlias = Mapping[int, tuple[Side, ...]]


class Outcome(str, enum.Enum):
    """What a rule says of a whole session: alarm if any of its cases is slower."""

    ALARM = "alarm"
    CLEAR = "clear"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """One session to be judged, and what was stored before it.

    `now` has the launch pairs of one session, in the order in which they would be measured: both
    sides for a rule that compares two interpreters, the candidate for one that compares with
    `baseline`, the reference launches of other sessions, in no order. `further` begins with these
    and goes on, for rules that ask for more launches where they are undecided.
    """

    framework: str
    ranks: int
    now: Pairs
    further: Pairs
    baseline: tuple[Stored, ...]


Rule: TypeAlias = Callable[[Draw], Outcome]


def alarm_if(slower: bool) -> Outcome:
    """The outcome of a rule that is never undecided."""
    return Outcome.ALARM if slower else Outcome.CLEAR

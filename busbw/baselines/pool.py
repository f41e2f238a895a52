"""What a new session makes of an entry: the pool, its level, and the pin that bounds losses.

A level may creep: each step too small for a verdict, and each accepted. So an entry has a pin, a
level that later ones are held against. The level may lie above its pin by a budget, no more;
the pin rises only when somebody accepts a loss with a reason. An improvement beyond the budget
takes the pin down with it, or it could be lost again unseen; a smaller one leaves it, or noise
would ratchet it down.

Entries in, entries out: no file is known here, and what is refused is said elsewhere.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

from .document import Entry, Status
from .entries import rounded_us

# Enough launches to know the noise, and few enough that the pool follows the machine and a line can
# still be read.
MOST_SESSIONS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """The entry as it would be written; `lost`: that takes a reason, for it loses too much."""

    entry: Entry
    lost: bool = False


def level_us(entry: Entry) -> float | None:
    """The median over sessions of each session's median launch; None without sessions."""
    if not entry.sessions:
        return None
    return statistics.median(statistics.median(s.times_us) for s in entry.sessions)


def beyond(level: float, pinned: float, budget: float) -> bool:
    """Whether `level` is slower than `pinned`, in the same unit, by more than the fraction."""
    return level > pinned * (1 + budget)


def joined(old: Entry | None, new: Entry, *, append: bool, budget: float) -> Joined:
    """`new`, with one session and no pin, in the place of `old` or, with `append`, joined to it.

    Times of another protocol are not comparable: they take the place of the old ones and pin
    their own level. Running out of memory where a time stands is a loss beyond any budget.
    """
    if old is None or old.status is Status.OOM or old.protocol != new.protocol:
        return Joined(entry=pinned_at_level(new))
    if new.status is Status.OOM:
        return Joined(entry=new, lost=True)
    sessions = (*old.sessions, *new.sessions)[-MOST_SESSIONS:] if append else new.sessions
    entry = replace(new, sessions=sessions, pinned_us=old.pinned_us, pinned_date=old.pinned_date)
    level, pinned = level_us(entry), old.pinned_us
    assert level is not None and pinned is not None
    lost = beyond(level, pinned, budget)
    if lost or beyond(pinned, level, budget):
        entry = pinned_at_level(entry)
    return Joined(entry=entry, lost=lost)


def pinned_at_level(entry: Entry) -> Entry:
    """`entry` pinned at its present level, on the date of its newest session."""
    level = level_us(entry)
    if level is None:
        return entry
    return pinned_on(entry, entry.sessions[-1].date)


def pinned_on(entry: Entry, date: str) -> Entry:
    """`entry`, which has a level, pinned at it on `date`."""
    level = level_us(entry)
    assert level is not None
    return replace(entry, pinned_us=rounded_us(level), pinned_date=date)

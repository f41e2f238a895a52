"""What is stored of a Case: the launches of the sessions that were accepted, and the pin.

Holds what was accepted and what it amounts to; what may be accepted is decided elsewhere, and no
file is known here.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from .case import Case


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineSession:
    """The launches that one session added to a baseline, seconds for each.

    `anchors_s` has, for each launch, seconds for one pass of the launch's anchor workload for this
    case, a memory copy without a collective that was measured beside it; it is empty where none
    was. `commit` is empty where there was none. `surroundings` are the machine's load, its clock
    frequency and the flags that steer the framework, as far as they are known.
    """

    date: str
    commit: str
    versions: Mapping[str, str]
    times_s: tuple[float, ...]
    anchors_s: tuple[float, ...] = ()
    surroundings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """What a Case did on one Environment key: its sessions, oldest first, or `oom` and none.

    `date` and `versions` are those of the newest session, or of the entry that says `oom`.
    `pinned_s` is the pinned level in seconds, which the sum of all accepted small losses is
    bounded against, and `pinned_date` when it was pinned; None and empty where it is `oom`.
    `memory_limit_bytes` is the artificial limit that it was `oom` under; None: the machine's own.
    """

    case: Case
    oom: bool
    sessions: tuple[BaselineSession, ...]
    date: str
    versions: Mapping[str, str]
    needed_bytes: int | None = None
    available_bytes: int | None = None
    memory_limit_bytes: int | None = None
    pinned_s: float | None = None
    pinned_date: str = ""

    @property
    def times_s(self) -> tuple[float, ...]:
        """All launches of all sessions, oldest first."""
        return tuple(time_s for session in self.sessions for time_s in session.times_s)

    @property
    def level_s(self) -> float | None:
        """The median over sessions of each session's median launch; None where it is `oom`.

        A session counts once, however many launches it had: launches of one session are alike.
        """
        if not self.sessions:
            return None
        return statistics.median(statistics.median(s.times_s) for s in self.sessions)

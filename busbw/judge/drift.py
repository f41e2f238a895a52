"""A level that is not what was accepted any more: over the sessions since, with the night it began.

Each night may lose too little to be seen; the sessions together show it. Takes levels, judges no
single session.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from busbw import stats
from busbw.model import Case, EarlierSession, change_text, merged, neighbours, plural
from busbw.stats import Segment

from .levels import Levels, log_times
from .policy import Policy

# More cases than these are counted.
_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """A level that lies `log_ratio` above the accepted one, since the session that `began` then.

    `case` is None for what all cases share. `changes` are what changed with that session, such as
    ``jaxlib 0.10.1 -> 0.10.2``. `than` says what the first level is.
    """

    case: Case | None
    log_ratio: float
    began: datetime
    sessions: int
    changes: tuple[str, ...]
    than: str = "accepted"

    @property
    def text(self) -> str:
        """What is slower, by how much, since when, and what changed then."""
        name = "all cases together" if self.case is None else self.case.name
        verb = "are" if self.case is None else "is"
        text = (
            f"{name} {verb} {change_text(math.expm1(self.log_ratio))} slower than {self.than} "
            f"since {self.began:%Y-%m-%d}, {plural(self.sessions, 'session')} ago"
        )
        return f"{text}; what changed there: {', '.join(self.changes) or 'nothing that is known'}"


def drifts(levels: Levels, today: EarlierSession, policy: Policy) -> tuple[Drift, ...]:
    """What has drifted, `today` included; the shared part first, then the slowest case."""
    sessions = merged([*levels.sessions, today], policy.session_apart)
    near = neighbours(levels.highest, policy.expected.neighbours)
    logs = [log_times(one.times_s) for one in sessions]
    found = stats.components(logs, policy.expected, neighbours=near)
    least = math.log1p(policy.drift)
    shared = _drift(None, found.segments, sessions, least)
    cases = (
        _drift(case, one.segments, sessions, least)
        for case, one in found.cases.items()
        if case in today.times_s
    )
    drifted = [one for one in cases if one is not None]
    drifted.sort(key=lambda one: one.log_ratio, reverse=True)
    return (*([shared] if shared else []), *drifted)


def drift_text(found: Sequence[Drift]) -> str:
    """The first of them in full, and how many more."""
    more = len(found) - _MOST_NAMED
    texts = [one.text for one in found[:_MOST_NAMED]]
    return "; ".join([*texts, *([f"and {plural(more, 'case')} more"] if more > 0 else [])])


def _drift(
    case: Case | None,
    segments: Sequence[Segment],
    sessions: Sequence[EarlierSession],
    least: float,
) -> Drift | None:
    """The change from the first segment on which all later ones are slower; None if none is."""
    slower = _slower(segments)
    if len(segments) < 2 or segments[-1].level - segments[0].level <= least or not slower:
        return None
    begin = slower[0].begin
    return Drift(
        case=case,
        log_ratio=segments[-1].level - segments[0].level,
        began=sessions[begin].began,
        sessions=len(sessions) - begin,
        changes=sessions[begin].changes_since(sessions[begin - 1]),
    )


def _slower(segments: Sequence[Segment]) -> list[Segment]:
    """The newest segments, oldest first, as far back as they are above the first."""
    found: list[Segment] = []
    for segment in reversed(segments[1:]):
        if segment.level <= segments[0].level:
            break
        found.insert(0, segment)
    return found

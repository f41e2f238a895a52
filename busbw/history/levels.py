"""Lines over time: what each case took from session to session, and how sessions ended.

Pure: lines in, values out. A session that was made slower on purpose says nothing of a level.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from busbw import stats
from busbw.model import Case, Outcome

from .lines import Line


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseHistory:
    """One case: the time of each session in seconds, by when it began, oldest first.

    The time of a session is the median over its launches. `outcomes` counts the verdicts, of
    sessions without a time too; `baseline_date` is what the newest session was compared with.
    """

    case: Case
    times_s: Mapping[str, float]
    outcomes: Mapping[Outcome, int]
    baseline_date: str

    @property
    def level_s(self) -> float | None:
        """The median over sessions; None if none has a time."""
        return statistics.median(self.times_s.values()) if self.times_s else None

    @property
    def spread(self) -> float | None:
        """The relative standard deviation of sessions, robust; None with fewer than three."""
        times_s = tuple(self.times_s.values())
        return stats.relative_mad(times_s) if len(times_s) > 2 else None

    @property
    def newest_s(self) -> float | None:
        """The time of the newest session that has one."""
        return tuple(self.times_s.values())[-1] if self.times_s else None


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineHistory:
    """All cases of one machine, and by session when it began, its commit and its verdict."""

    folder: str
    cases: tuple[CaseHistory, ...]
    sessions: Mapping[str, Line]

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many sessions ended with which verdict."""
        return Counter(line.session_outcome.value for line in self.sessions.values())

    @property
    def baseline_age_days(self) -> int | None:
        """From the oldest baseline in use to the newest session; None where there is none."""
        dates = [date.fromisoformat(one.baseline_date) for one in self.cases if one.baseline_date]
        if not dates:
            return None
        newest = max(line.began for line in self.sessions.values())
        return (newest.date() - min(dates)).days


def machine_history(folder: str, lines: Sequence[Line]) -> MachineHistory:
    """The history of one machine from its lines, oldest first."""
    by_case: dict[Case, list[Line]] = {}
    sessions: dict[str, Line] = {}
    for line in lines:
        sessions.setdefault(line.session, line)
        if not line.injected:
            by_case.setdefault(line.case.case, []).append(line)
    return MachineHistory(
        folder=folder,
        cases=tuple(_case_history(case, found) for case, found in by_case.items()),
        sessions=sessions,
    )


def _case_history(case: Case, lines: Sequence[Line]) -> CaseHistory:
    return CaseHistory(
        case=case,
        times_s={
            line.session: 1e-6 * statistics.median(line.times_us) for line in lines if line.times_us
        },
        outcomes=Counter(line.outcome for line in lines),
        baseline_date=lines[-1].baseline_date,
    )

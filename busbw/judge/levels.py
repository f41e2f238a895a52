"""The levels that today is compared with: those of a baseline, and of the sessions since.

A baseline pins what must not be lost; the history says what has been usual since it was accepted.
Decides which sessions count; the sums are in `busbw.stats`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from busbw import stats
from busbw.model import Baseline, Case, EarlierSession, merged, neighbours
from busbw.stats import CaseLevel, Components

from .policy import Policy

# What differs from one session to the next though nothing changed.
_PASSING = {"load", "clock MHz"}

LogTimes = Mapping[Case, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """What is known of the cases of one framework on one machine.

    `sessions` are those that count, oldest first, with what sessions minutes apart measured in one.
    `components` has their levels. `highest` is the log time that a case's level is never above:
    its pinned one and the budget. `cases` is how many have a baseline, whatever is measured today.
    """

    sessions: tuple[EarlierSession, ...]
    components: Components[Case]
    highest: LogTimes
    cases: int

    def level(self, case: Case) -> CaseLevel | None:
        """The level of `case`, not above its highest; None where it has no baseline."""
        found, highest = self.components.cases.get(case), self.highest.get(case)
        if found is None or highest is None:
            return None
        return replace(found, level=min(found.level, highest))


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What is stored of the cases of one framework on one machine.

    `since` is, by case, the day of a change that was acknowledged: what was before does not count.
    """

    baselines: Sequence[Baseline]
    history: Sequence[EarlierSession] = ()
    since: Mapping[Case, datetime] = field(default_factory=dict)

    @property
    def timed(self) -> list[Baseline]:
        """The baselines that have times."""
        return [one for one in self.baselines if one.sessions]

    def sessions(self, apart: timedelta) -> tuple[EarlierSession, ...]:
        """Those that count: of the baselines, and of the history since they were accepted."""
        accepted = _accepted(self.timed)
        begins = {one.case: one.sessions[0].began for one in self.timed}
        later = _later(self.history, begins, accepted)
        return _after(merged([*accepted, *later], apart), self.since)


def levels_of(known: Mapping[str, Known], policy: Policy) -> dict[str, Levels]:
    """The levels by framework, of those that have times; their variances moderate each other."""
    timed = {name: one for name, one in known.items() if one.timed}
    sessions = {name: one.sessions(policy.session_apart) for name, one in timed.items()}
    found = stats.components_of(
        {name: [log_times(s.times_s) for s in those] for name, those in sessions.items()},
        policy.expected,
        {name: [s.regressed for s in those] for name, those in sessions.items()},
        neighbours(
            (baseline.case for one in timed.values() for baseline in one.timed),
            policy.expected.neighbours,
        ),
    )
    return {
        name: Levels(
            sessions=sessions[name],
            components=found[name],
            highest={
                baseline.case: math.log(baseline.pinned_s) + math.log1p(policy.budget)
                for baseline in one.timed
                if baseline.pinned_s is not None
            },
            cases=len(one.timed),
        )
        for name, one in timed.items()
    }


def log_times(times_s: Mapping[Case, Sequence[float]]) -> dict[Case, float]:
    """The log of each case's median launch."""
    return {case: math.log(statistics.median(launches)) for case, launches in times_s.items()}


def _accepted(timed: Sequence[Baseline]) -> list[EarlierSession]:
    """The sessions of the baselines: what was measured at one moment is of one session."""
    found: dict[tuple[datetime, str], dict[Case, tuple[float, ...]]] = {}
    surroundings: dict[tuple[datetime, str], Mapping[str, str]] = {}
    for baseline in timed:
        for one in baseline.sessions:
            key = (one.began, one.commit)
            times_s = found.setdefault(key, {})
            # Sessions of one day, of which no more is known, are minutes apart.
            times_s[baseline.case] = times_s.get(baseline.case, ()) + one.times_s
            lasting = {name: one.surroundings[name] for name in one.surroundings.keys() - _PASSING}
            surroundings.setdefault(key, {**one.versions, **lasting})
    return [
        EarlierSession(began=key[0], times_s=times_s, surroundings=surroundings[key])
        for key, times_s in found.items()
    ]


def _later(
    history: Sequence[EarlierSession],
    begins: Mapping[Case, datetime],
    accepted: Sequence[EarlierSession],
) -> list[EarlierSession]:
    """Those of the history from the acceptance of each case on that the baseline does not have."""
    known = {(case, times_s) for one in accepted for case, times_s in one.times_s.items()}
    found = []
    for session in history:
        times_s = {
            case: times_s
            for case, times_s in session.times_s.items()
            if case in begins and session.began >= begins[case] and (case, times_s) not in known
        }
        if times_s:
            found.append(replace(session, times_s=times_s))
    return found


def _after(
    sessions: Sequence[EarlierSession], since: Mapping[Case, datetime]
) -> tuple[EarlierSession, ...]:
    """Without what cases took before an acknowledged change, once they were measured since."""
    measured = {
        case
        for case, moment in since.items()
        if any(case in one.times_s and one.began >= moment for one in sessions)
    }
    kept = (
        replace(
            one,
            times_s={
                case: times_s
                for case, times_s in one.times_s.items()
                if case not in measured or one.began >= since[case]
            },
        )
        for one in sessions
    )
    return tuple(one for one in kept if one.times_s)

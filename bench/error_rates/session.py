"""Judge one session, simulated or recorded, with the functions that judge a measured one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.judge.case import decide
from busbw.judge.expected_times import nearest
from busbw.judge.lasting_losses import Assessment, assess, record
from busbw.judge.policy import Policy
from busbw.judge.rule import CaseTimes, History, compute_limits
from busbw.model.case import Case

# Launches of a session before any suspicion; as many fresh ones confirm a suspicion.
LAUNCHES = 3

# Launches in seconds, by case.
Times = Mapping[Case, Sequence[float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The verdict of one session.

    `red` cases are REGRESSED, `improved` ones IMPROVED, and the limits of `blind` cases are too
    wide to say anything. `times_s` has the launches that the rule used.
    """

    red: frozenset[Case]
    improved: frozenset[Case]
    blind: int
    assessment: Assessment
    times_s: Times

    @property
    def is_red(self) -> bool:
        """Return whether the exit code is 1."""
        is_blind = 10 * self.blind > len(self.assessment.limits)
        return bool(self.red or self.assessment.slower) or self.assessment.is_noisy or is_blind


def append(history: History, times_s: Times) -> None:
    """Append a session to the history, as a later session replays it."""
    times = {case: CaseTimes.split(launches, history.rule) for case, launches in times_s.items()}
    record(history, times, assess(history, compute_limits(history, times), times))


def judge(history: History, times_s: Times, policy: Policy) -> Judged:
    """Judge the first three launches of each case; the last three confirm suspicions."""
    rule, counts = policy.rule, dict.fromkeys(times_s, LAUNCHES)
    while True:
        used = {case: times_s[case][: counts[case]] for case in times_s}
        times = {case: CaseTimes.split(launches, rule, LAUNCHES) for case, launches in used.items()}
        bounds = compute_limits(history, times)
        decisions = {
            case: decide(times[case], limit, rule, limit.slower)
            for case, limit in bounds.limits.items()
        }
        more = {
            case: LAUNCHES + rule.confirming_launches
            for case, decision in decisions.items()
            if decision.direction is None
        }
        if not more:
            break
        if rule.compares_neighbours:
            beside = {near for case in more for near in _nearest(case, times_s)} - more.keys()
            counts.update({case: max(counts[case], *more.values()) for case in beside})
        counts.update(more)
    assessment, too_wide = assess(history, bounds, times), math.log1p(rule.max_useful_limit)
    directions = assessment.directions.items()
    lost = {case for case in assessment.directions if assessment.states[case].loss}
    return Judged(
        red=frozenset(lost | {case for case, direction in directions if direction == 1}),
        improved=frozenset(case for case, direction in directions if direction == -1),
        blind=sum(
            decision.direction == 0 and decision.limit > too_wide for decision in decisions.values()
        ),
        assessment=assessment,
        times_s=used,
    )


def _nearest(case: Case, cases: Times) -> list[Case]:
    """Return the two sizes next to a case, which are measured again beside it."""
    family = [other for other in cases if other.family == case.family]
    return nearest(case, sorted(family, key=lambda other: other.payload_bytes))

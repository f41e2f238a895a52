"""Judge a simulated or recorded session with the functions that judge measured sessions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from busbw.judge.decision import decide_speed_change
from busbw.judge.lasting_losses import Assessment, append_judged_session, assess_session
from busbw.judge.levels import cases_decided_by_first_launch
from busbw.judge.noise import find_two_neighbours
from busbw.judge.policy import Policy
from busbw.judge.rule import compute_limits
from busbw.judge.series import CaseTimes, ReplayedHistory
from busbw.model.case import Case

# The launches of each case before it seems slower; as many additional launches confirm it.
LAUNCHES = 3

# The times of the launches in seconds, by case.
Times = Mapping[Case, Sequence[float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedSession:
    """The verdict on one session.

    `undetectable_count` is the number of cases whose limits are too wide to detect a loss.
    `assessment` compares the session with the history. `times_s` are the times of the launches that
    the rule used, in seconds by case.
    """

    regressed_cases: frozenset[Case]
    improved_cases: frozenset[Case]
    undetectable_count: int
    assessment: Assessment
    times_s: Times

    @property
    def is_red(self) -> bool:
        """Whether the exit code is 1."""
        is_blind = 10 * self.undetectable_count > len(self.assessment.limits)
        return (
            bool(self.regressed_cases or self.assessment.slower_frameworks)
            or self.assessment.is_noisy
            or is_blind
        )


def append_to_history(history: ReplayedHistory, times_s: Times) -> None:
    """Append a session to the history, as it is when later sessions replay it."""
    times = {case: CaseTimes.split(launches, history.rule) for case, launches in times_s.items()}
    append_judged_session(
        history, times, assess_session(history, compute_limits(history, times), times)
    )


def judge(
    history: ReplayedHistory,
    times_s: Times,
    policy: Policy,
    single_launch_cases: Collection[Case] = (),
) -> JudgedSession:
    """Judge a session by the first three launches of each case.

    The next three launches confirm that a case is slower. The first launch alone may decide
    `single_launch_cases`.
    """
    rule = policy.rule
    counts = {case: 1 if case in single_launch_cases else LAUNCHES for case in times_s}
    if single_launch_cases:
        used = {case: times_s[case][: counts[case]] for case in times_s}
        times = {case: CaseTimes.split(launches, rule, LAUNCHES) for case, launches in used.items()}
        assessment = assess_session(history, compute_limits(history, times), times)
        decided = {*cases_decided_by_first_launch(assessment)}.intersection(single_launch_cases)
        counts = {case: 1 if case in decided else LAUNCHES for case in times_s}
    while True:
        used = {case: times_s[case][: counts[case]] for case in times_s}
        times = {case: CaseTimes.split(launches, rule, LAUNCHES) for case, launches in used.items()}
        bounds = compute_limits(history, times)
        decisions = {
            case: decide_speed_change(times[case], limit, rule, limit.slower_above_log_ratio)
            for case, limit in bounds.limits.items()
        }
        more = {
            case: LAUNCHES + rule.confirming_launch_count
            for case, decision in decisions.items()
            if decision.direction is None
        }
        if not more:
            break
        if rule.compares_neighbours:
            beside = {near for case in more for near in _neighbours_of(case, times_s)} - more.keys()
            counts.update({case: max(counts[case], *more.values()) for case in beside})
        counts.update(more)
    assessment, too_wide = assess_session(history, bounds, times), math.log1p(rule.max_useful_limit)
    directions = assessment.directions.items()
    return JudgedSession(
        regressed_cases=frozenset(
            case
            for case, direction in directions
            if direction == 1 or assessment.latest_losses[case].loss
        ),
        improved_cases=frozenset(case for case, direction in directions if direction == -1),
        undetectable_count=sum(
            decision.direction == 0 and decision.slower_above_log_ratio > too_wide
            for decision in decisions.values()
        ),
        assessment=assessment,
        times_s=used,
    )


def _neighbours_of(case: Case, cases: Times) -> list[Case]:
    """Return the two neighbouring payloads of a case, which are measured again together with it."""
    family = [other for other in cases if other.family_key == case.family_key]
    return find_two_neighbours(case, sorted(family, key=lambda other: other.payload_bytes))

"""One session against those before, as the product judges it: simulated or recorded launches.

Nothing is decided here: `busbw.judge.rule` does, case by case and for what cases share, and says
what is measured again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.judge.expected_times import nearest
from busbw.judge.lasting_losses import Assessment, assess, record
from busbw.judge.policy import Policy
from busbw.judge.rule import CaseTimes, History, decide, limits
from busbw.model.case import Case

LAUNCHES = 3

# The launches of a session in seconds.
Times = Mapping[Case, Sequence[float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """The verdict of one session: the cases that are `red`, named `improved`, and the rest.

    `blind` is the number of cases with a limit that is too wide; `undecided`: a suspicion found no
    launches left.
    """

    red: frozenset[Case]
    improved: frozenset[Case]
    blind: int
    undecided: bool
    judged: Assessment
    times_s: Mapping[Case, Sequence[float]]

    @property
    def is_red(self) -> bool:
        return bool(self.red) or bool(self.judged.slower) or self.without_verdict

    @property
    def without_verdict(self) -> bool:
        """Whether it is noisier than usual, or more than a tenth of its cases cannot be judged."""
        return self.judged.is_noisy or 10 * self.blind > len(self.judged.limits)


def keep(history: History, times_s: Mapping[Case, Sequence[float]]) -> None:
    """Append a session to the history, as a later session replays it."""
    today = {case: CaseTimes.of(one, history.rule) for case, one in times_s.items()}
    record(history, today, assess(history, limits(history, today), today))


def night(history: History, times_s: Times, policy: Policy) -> Night:
    """Judge the first three launches of each case; the others are there to confirm."""
    rule, count = policy.rule, dict.fromkeys(times_s, LAUNCHES)
    while True:
        taken = {case: times_s[case][: count[case]] for case in times_s}
        today = {case: CaseTimes.of(one, rule, LAUNCHES) for case, one in taken.items()}
        tonight = limits(history, today)
        found = {
            case: decide(today[case], one, rule, one.slower, LAUNCHES + rule.confirming)
            for case, one in tonight.limits.items()
        }
        wanted = {case: one.wanted for case, one in found.items() if one.wanted is not None}
        undecided = any(number > len(times_s[case]) for case, number in wanted.items())
        if undecided or not wanted:
            break
        near = {one for case in wanted for one in _nearest(case, times_s) if rule.by_neighbours}
        count.update({case: max(count[case], *wanted.values()) for case in near - wanted.keys()})
        count.update(wanted)
    judged, too_wide = assess(history, tonight, today), math.log1p(rule.blind)
    red = {case for case, state in judged.states.items() if state.loss}
    red |= {case for case, one in judged.directions.items() if one == 1}
    return Night(
        red=frozenset(red),
        improved=frozenset(c for c, one in judged.directions.items() if one == -1),
        blind=sum(one.direction == 0 and one.limit > too_wide for one in found.values()),
        undecided=undecided,
        judged=judged,
        times_s=taken,
    )


def _nearest(case: Case, cases: Times) -> list[Case]:
    """The two sizes next to it, which are measured again beside a suspect."""
    alike = [one for one in cases if one.key.family == case.key.family]
    return nearest(case, sorted(alike, key=lambda one: one.payload_bytes))

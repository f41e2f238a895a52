"""One session against those before, as the product judges it: simulated or recorded launches.

Nothing is decided here: `busbw.judge.rule` does, case by case and for what cases share, and says
what is measured again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.judge import rule, usual
from busbw.judge.policy import Policy
from busbw.model.case import Case

LAUNCHES = 3

# The launches of a session in seconds.
Times = Mapping[Case, Sequence[float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """What was said of one session: 1, -1 or 0 of each case, and what all have in common.

    `noisy` cases were seen again within their limits, and those of `blind` ones are too wide;
    `drifts` says that a level rose. `undecided`: a suspicion found no launches left. `past` is it
    as later sessions see it.
    """

    called: Mapping[Case, int]
    slower: bool
    drifts: bool
    noisier: bool
    noisy: int
    blind: int
    undecided: bool
    past: usual.Night

    @property
    def regressed(self) -> set[Case]:
        return {case for case, one in self.called.items() if one > 0}

    @property
    def is_red(self) -> bool:
        return self.slower or bool(self.regressed)

    @property
    def without_verdict(self) -> bool:
        """It is noisier than usual, or more than a tenth of its cases cannot be judged."""
        return self.noisier or 10 * self.blind > len(self.called)


def past(times_s: Times) -> usual.Night:
    return usual.Night(launches={case: usual.Launches.of(one) for case, one in times_s.items()})


def night(known: usual.Past, times_s: Times, policy: Policy) -> Night:
    """The verdicts on the first three launches of each case; the others are there to confirm."""
    count = dict.fromkeys(times_s, LAUNCHES)
    while True:
        taken = {case: times_s[case][: count[case]] for case in times_s}
        today = past(taken).launches
        tonight = rule.limits(known, today, policy.rule)
        calls = {
            case: rule.call(taken[case], one, LAUNCHES, policy.rule, one.slower)
            for case, one in tonight.limits.items()
        }
        wanted = {case: one.wanted for case, one in calls.items() if one.wanted is not None}
        undecided = any(number > len(times_s[case]) for case, number in wanted.items())
        if undecided or not wanted:
            break
        near = {one for case in wanted for one in _nearest(case, times_s)}
        count.update({case: max(count[case], *wanted.values()) for case in near - wanted.keys()})
        count.update(wanted)
    called = {case: one.called or 0 for case, one in calls.items()}
    too_wide = math.log1p(policy.rule.blind)
    return Night(
        called=called,
        slower=any(one.is_slower for one in tonight.shared.values()),
        drifts=any(one.rise for one in tonight.shared.values())
        or any(one.rise for one in tonight.limits.values()),
        noisier=tonight.noisier > 1,
        noisy=sum(one.is_noisy for one in calls.values()),
        blind=sum(one.called == 0 and one.limit > too_wide for one in calls.values()),
        undecided=undecided,
        past=usual.Night(launches=today, called={c: one for c, one in called.items() if one}),
    )


def _nearest(case: Case, cases: Times) -> list[Case]:
    """The two sizes next to it, which are measured again beside a suspect."""
    alike = [one for one in cases if one.key.family == case.key.family]
    return usual.nearest(case, sorted(alike, key=lambda one: one.payload_bytes))

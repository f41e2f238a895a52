"""busbw's own rules, the very functions that judge a session, put before recorded launches.

Nothing is decided here: `busbw.judge` does, with the policy that it has for a CPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from busbw.judge import paired, usual
from busbw.judge.policy import POLICIES
from busbw.model.words import Device
from busbw.model.words import Outcome as Verdict

from .night import night, past
from .replay import Draw, Outcome, Rule
from .simulated import case

POLICY = POLICIES[Device.CPU]


def in_turn(draw: Draw) -> Outcome:
    """The rule of `--against`; undecided is NOISY.

    Where the recorded pairs end before a suspicion could be seen again, it counts as an alarm.
    """
    looks, found = POLICY.looks, set()
    shifts = {payload: [one.shift for one in of] for payload, of in draw.pairs.items()}
    prior = paired.prior_of(shifts.values(), looks)
    for payload, pairs in draw.pairs.items():
        least_s = statistics.median(one.reference.launch_time_s for one in pairs)
        floor = max(looks.floor, POLICY.least_difference_s / least_s)
        one = paired.decide(shifts[payload], looks, cases=len(shifts), floor=floor, prior=prior)
        found.add(Verdict.REGRESSED if one.suspected else one.outcome or Verdict.NOISY)
    if Verdict.REGRESSED in found:
        return Outcome.ALARM
    return Outcome.UNDECIDED if Verdict.NOISY in found else Outcome.CLEAR


def stored(draw: Draw) -> Outcome:
    """The rule against a stored baseline of several sessions, suspects seen again.

    Where launches end before one could be seen again, that counts as an alarm.
    """
    cases = {payload: case(payload) for payload in draw.pairs}
    before = [
        past({cases[at]: [side.launch_time_s for side in of] for at, of in one.items()})
        for one in draw.baseline
    ]
    today = {
        cases[payload]: [one.candidate.launch_time_s for one in pairs]
        for payload, pairs in draw.pairs.items()
    }
    found = night(usual.learn(before, today, POLICY.rule), today, POLICY)
    if found.is_red or found.undecided:
        return Outcome.ALARM
    return Outcome.UNDECIDED if found.blind else Outcome.CLEAR


OWN: Mapping[str, Rule] = {"busbw `--against`, in turn": in_turn, "busbw, stored baseline": stored}

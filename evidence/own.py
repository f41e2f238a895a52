"""busbw's own rules, the very functions that judge a session, put before recorded launches.

Nothing is decided here: `busbw.judge` does, with the policy that it has for a CPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from busbw import judge
from busbw.judge import paired, rule
from busbw.model import Case, Clock, Device, Protocol
from busbw.model import Outcome as Verdict
from busbw.stats import Variance
from busbw.workloads import Collective

from .corpus import RecordedLaunch
from .draw import Draw, Outcome
from .night import night, past

POLICY = judge.POLICIES[Device.CPU]


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """busbw with `--against`: pairs of launches measured in turn, as many as it takes.

    `busbw.judge.paired.decide`, from 6 pairs to 49; undecided is NOISY. Where the recorded
    pairs end before a suspicion could be seen again, it counts as an alarm.
    """

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        cases = {payload: [one.shift for one in of] for payload, of in draw.further.items()}
        prior = paired.prior_of(cases.values(), POLICY.looks)
        return _worst(
            [
                self._decided(launches, cases[payload], len(draw.now), prior)
                for payload, launches in draw.further.items()
            ]
        )

    def _decided(
        self,
        launches: Sequence[RecordedLaunch],
        shifts: Sequence[float],
        cases: int,
        prior: Variance | None,
    ) -> Verdict:
        looks = POLICY.looks
        least_s = statistics.median(one.reference.launch_time_s for one in launches)
        floor = max(looks.floor, POLICY.least_difference_s / least_s)
        decision = paired.decide(shifts, looks, cases=cases, floor=floor, prior=prior)
        if decision.suspected:
            # Launches end before it could be seen again: counted against the rule.
            return Verdict.REGRESSED
        return decision.outcome or Verdict.NOISY


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """busbw against a stored baseline of several sessions, suspects seen again.

    `busbw.judge.rule` with the levels of all payloads and what they share today, with 3 launches
    and 3 more for a suspicion; or all payloads together are slower.
    """

    launches: int = 3

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        cases = {payload: _case(draw, payload) for payload in draw.now}
        before = [
            past({cases[at]: [side.launch_time_s for side in one[at]] for at in cases})
            for one in draw.baseline
        ]
        today = {
            case: [one.candidate.launch_time_s for one in draw.further[payload]]
            for payload, case in cases.items()
        }
        known = rule.learn(before, today, POLICY.rule)
        found = night(known, today, POLICY, self.launches)
        # Where launches end before it could be seen again, that counts against the rule.
        if found.is_red or found.undecided:
            return Outcome.ALARM
        return Outcome.UNDECIDED if found.blind else Outcome.CLEAR


def _case(draw: Draw, payload: int) -> Case:
    return Case(
        framework=draw.framework,
        payload_bytes=payload,
        workload=Collective(),
        strategy="default",
        dtype="float32",
        ranks=draw.ranks,
        mesh="",
        protocol=Protocol(clock=Clock.HOST, program=""),
    )


def _worst(found: Sequence[Verdict]) -> Outcome:
    if Verdict.REGRESSED in found:
        return Outcome.ALARM
    return Outcome.UNDECIDED if Verdict.NOISY in found else Outcome.CLEAR

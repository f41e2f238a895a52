"""busbw's own rules, the very functions that judge a session, put before recorded launches.

Nothing is decided here: `busbw.judge` does, with the policy that it has for a CPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw import judge
from busbw.judge import paired, stored
from busbw.model import Device
from busbw.model import Outcome as Verdict

from .corpus import RecordedLaunch, Side
from .draw import Draw, Outcome

POLICY = judge.POLICIES[Device.CPU]


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """busbw with `--against`: pairs of launches measured in turn, as many as it takes.

    `busbw.judge.paired.decide`, from 6 pairs to 49; undecided is NOISY. Where the recorded
    pairs end before a suspicion could be seen again, it counts as an alarm.
    """

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        found = [self._decided(launches, len(draw.now)) for launches in draw.further.values()]
        return _worst(found)

    def _decided(self, launches: Sequence[RecordedLaunch], cases: int) -> Verdict:
        shifts = [one.shift for one in launches]
        looks = POLICY.looks
        least_s = statistics.median(one.reference.launch_time_s for one in launches)
        floor = max(looks.floor, POLICY.least_difference_s / least_s)
        decision = paired.decide(shifts, looks, cases=cases, floor=floor)
        if decision.suspected:
            # Launches end before it could be seen again: counted against the rule.
            return Verdict.REGRESSED
        return decision.outcome or Verdict.NOISY


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """busbw against a stored baseline of several sessions, suspects seen again.

    `busbw.judge.stored.compare`, with 3 launches and 3 more for a suspicion, times corrected by
    `anchor_weight` of the anchor's.
    """

    anchor_weight: float
    launches: int = 3

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        return _worst([self._compared(draw, payload) for payload in draw.now])

    def _compared(self, draw: Draw, payload: int) -> Verdict:
        candidates = [one.candidate for one in draw.further[payload]]
        sessions = [_launches(one[payload]) for one in draw.baseline]
        policy = replace(POLICY, anchor_weight=self.anchor_weight)
        count = self.launches
        while True:
            found = stored.compare(
                sessions,
                _launches(candidates[:count]),
                policy,
                payload_bytes=payload,
                cases=len(draw.now),
                launches=self.launches,
            )
            if found.outcome is not None or found.wanted is None:
                return found.outcome or Verdict.NOISY
            if found.wanted > len(candidates):
                # Launches end before it could be seen again: counted against the rule.
                return Verdict.REGRESSED if found.suspected else Verdict.NOISY
            count = found.wanted


def _launches(sides: Sequence[Side]) -> stored.SessionLaunches:
    return stored.SessionLaunches(
        times_s=tuple(side.launch_time_s for side in sides),
        anchors_s=tuple(side.anchor_s for side in sides),
    )


def _worst(found: Sequence[Verdict]) -> Outcome:
    if Verdict.REGRESSED in found:
        return Outcome.ALARM
    return Outcome.UNDECIDED if Verdict.NOISY in found else Outcome.CLEAR

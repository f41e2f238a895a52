"""busbw's own rules, the very functions that judge a session, put before recorded launches.

Nothing is decided here: `busbw.judge` does, with the policy that it has for a CPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from busbw import judge
from busbw.judge import paired, stored
from busbw.model import Baseline, BaselineSession, Case, Clock, Device, Protocol
from busbw.model import Outcome as Verdict
from busbw.stats import Variance
from busbw.workloads import Collective

from .corpus import RecordedLaunch
from .draw import Draw, Outcome

POLICY = judge.POLICIES[Device.CPU]
_FIRST = date(2026, 1, 1)


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

    `busbw.judge.stored.compare` with the levels of all payloads and what they share today, with 3
    launches and 3 more for a suspicion; or all payloads together are slower.
    """

    launches: int = 3

    def __call__(self, draw: Draw) -> Outcome:
        """The outcome of the session."""
        cases = {payload: _case(draw, payload) for payload in draw.now}
        baselines = [_baseline(draw, payload, case) for payload, case in cases.items()]
        known = {draw.framework: judge.Known(baselines=baselines)}
        levels = judge.levels_of(known, POLICY)[draw.framework]
        found = dict.fromkeys(cases, self.launches)
        while True:
            shift, compared = self._compared(draw, cases, levels, found)
            wanted = {at: one.wanted for at, one in compared.items() if one.wanted is not None}
            if any(count > len(draw.further[payload]) for payload, count in wanted.items()):
                # Launches end before it could be seen again: counted against the rule.
                return Outcome.ALARM
            if not wanted:
                if judge.slower_text(draw.framework, len(cases), shift, POLICY, 1):
                    return Outcome.ALARM
                return _worst([one.outcome or Verdict.NOISY for one in compared.values()])
            found.update(wanted)

    def _compared(
        self,
        draw: Draw,
        cases: Mapping[int, Case],
        levels: judge.Levels,
        launches: Mapping[int, int],
    ) -> tuple[judge.SharedShift, dict[int, stored.Compared]]:
        """What today's launches share, and each payload's, of so many `launches`."""
        times_s = {
            payload: [one.candidate.launch_time_s for one in draw.further[payload][:count]]
            for payload, count in launches.items()
        }
        today = {case: times_s[payload] for payload, case in cases.items()}
        shift = judge.shared_shift(today, levels, POLICY)
        found = {}
        for payload, case in cases.items():
            level = levels.level(case)
            assert level is not None
            found[payload] = stored.compare(
                level,
                times_s[payload],
                shift,
                POLICY,
                case=case,
                cases=levels.cases,
                launches=self.launches,
                least_s=POLICY.least_difference_of(case.clock),
            )
        return shift, found


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


def _baseline(draw: Draw, payload: int, case: Case) -> Baseline:
    """The drawn sessions, a day apart: in no order, as they were drawn."""
    days = [(_FIRST + timedelta(days=at)).isoformat() for at in range(len(draw.baseline))]
    found = Baseline(
        case=case,
        oom=False,
        sessions=tuple(
            BaselineSession(
                date=day,
                commit="",
                versions={},
                times_s=tuple(side.launch_time_s for side in one[payload]),
            )
            for day, one in zip(days, draw.baseline)
        ),
        date=days[-1],
        versions={},
    )
    return replace(found, pinned_s=found.level_s, pinned_date=days[-1])


def _worst(found: Sequence[Verdict]) -> Outcome:
    if Verdict.REGRESSED in found:
        return Outcome.ALARM
    return Outcome.UNDECIDED if Verdict.NOISY in found else Outcome.CLEAR

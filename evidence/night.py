"""One session against what is stored, as the product judges it: simulated or recorded launches.

Nothing is decided here: `busbw.judge` does, case by case and for the session, and names what is
measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from busbw import judge
from busbw.judge import Drift, Known, Levels, Policy, Ruling, SharedShift, StoredReference, Terms
from busbw.model import (
    Baseline,
    Case,
    EarlierSession,
    LaunchId,
    Measurement,
    Outcome,
    Proof,
    Run,
    SessionVerdict,
    Spec,
)

LAUNCHES = 3

# The launches of a session in seconds.
Times = Mapping[Case, tuple[float, ...]]

_PROOF = Proof(collectives={"all-reduce": 1}, payload_copies=0, algorithm="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """What was said of one session: its cases, its verdict, and what had drifted."""

    verdict: SessionVerdict
    rulings: Mapping[Case, Ruling]
    drifted: tuple[Drift, ...]
    times_s: Times

    @property
    def regressed(self) -> list[Case]:
        """The cases that were called slower."""
        found = self.rulings.items()
        return [case for case, one in found if one.verdict.outcome is Outcome.REGRESSED]

    @property
    def is_red(self) -> bool:
        """Whether the session fails, for any reason."""
        return self.verdict.failed or self.verdict.failed_cases > 0

    def session(self, began: datetime, framework: str) -> EarlierSession:
        """As later sessions see it."""
        slow = self.regressed
        return session(began, self.times_s, framework, slow)


def session(
    began: datetime, times_s: Times, framework: str, regressed: Sequence[Case] = ()
) -> EarlierSession:
    """The cases of `framework` in a session."""
    return EarlierSession(
        began=began,
        times_s={case: times for case, times in times_s.items() if case.framework == framework},
        regressed=frozenset(case for case in regressed if case.framework == framework),
    )


def night(
    began: datetime,
    times_s: Times,
    known: Mapping[str, Known],
    policy: Policy,
    more: Callable[[Case], tuple[float, ...]],
) -> Night:
    """The verdicts on the launches `times_s`; `more` are the fresh ones of a case."""
    levels, times = judge.levels_of(known, policy), dict(times_s)
    rulings = _rulings(times, known, levels, policy)
    again = judge.rerun(
        {_spec(case): one for case, one in rulings.items()},
        {_spec(case): len(launches) for case, launches in times.items()},
    )
    for case in list(times):
        if _spec(case) in again.specs:
            times[case] += more(case)
    if again.specs:
        rulings = _rulings(times, known, levels, policy)
    drifted = tuple(
        drift
        for name, one in levels.items()
        for drift in judge.drifts(one, session(began, times, name), policy)
    )
    verdict = _session_verdict(times, levels, rulings, drifted, policy)
    return Night(verdict=verdict, rulings=rulings, drifted=drifted, times_s=times)


def _spec(case: Case) -> Spec:
    return Spec(
        framework=case.framework,
        payload_bytes=case.payload_bytes,
        workload=case.workload,
        dtype=case.dtype,
    )


def _measurement(case: Case, times_s: tuple[float, ...]) -> Measurement:
    runs = (
        Run(
            launch=LaunchId.parse(f"{number}.0"),
            iterations=1,
            samples_s=(time_s,),
            compile_s=0.0,
            values_checked=1,
            proof=_PROOF,
            clock=case.clock.value,
            framework_path="",
            versions={},
        )
        for number, time_s in enumerate(times_s, 1)
    )
    return Measurement(case=case, runs=tuple(runs))


def _shifts(times_s: Times, levels: Mapping[str, Levels], policy: Policy) -> dict[str, SharedShift]:
    return {
        name: judge.shared_shift(
            {case: times for case, times in times_s.items() if case.framework == name}, one, policy
        )
        for name, one in levels.items()
    }


def _rulings(
    times_s: Times, known: Mapping[str, Known], levels: Mapping[str, Levels], policy: Policy
) -> dict[Case, Ruling]:
    shifts, terms = _shifts(times_s, levels, policy), Terms(policy=policy, launches=LAUNCHES)
    cases = sum(one.cases for one in levels.values())
    stored = {one.case: one for those in known.values() for one in those.baselines}
    return {
        case: judge.judge_case(
            _spec(case),
            _measurement(case, times),
            _reference(stored[case], levels, shifts, cases),
            terms,
        )
        for case, times in times_s.items()
    }


def _reference(
    baseline: Baseline,
    levels: Mapping[str, Levels],
    shifts: Mapping[str, SharedShift],
    cases: int,
) -> StoredReference:
    framework = baseline.case.framework
    return StoredReference(
        baseline=baseline,
        level=levels[framework].level(baseline.case),
        shift=shifts[framework],
        cases=cases,
    )


def _session_verdict(
    times_s: Times,
    levels: Mapping[str, Levels],
    rulings: Mapping[Case, Ruling],
    drifted: tuple[Drift, ...],
    policy: Policy,
) -> SessionVerdict:
    verdicts, shifts = [one.verdict for one in rulings.values()], _shifts(times_s, levels, policy)
    groups = judge.groups_of_cases(
        verdicts, policy, {case: shifts[case.framework] for case in times_s}
    )
    whole = (
        judge.slower_text(name, levels[name].cases, shift, policy, len(shifts))
        for name, shift in shifts.items()
    )
    curves = (group.shifted.text for group in groups if group.shifted)
    return judge.judge_session(
        verdicts,
        [_measurement(case, times) for case, times in times_s.items()],
        judge.Circumstances(
            launches=LAUNCHES,
            slower=(*filter(None, whole), *curves),
            drifted=judge.drift_text(drifted),
        ),
    )

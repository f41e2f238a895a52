"""Resolved → Measured → Judged: all cases first, then the undecided ones, while time is left.

The judge names what is undecided, and the schedule measures only that. This file collects which
measurement is compared with which reference, on which terms; the rule is the judge's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from busbw import driver, judge, stats
from busbw.driver import Side
from busbw.model import (
    BaselineSession,
    CompiledVerdict,
    CompileSpec,
    Device,
    Measurement,
    Outcome,
    SessionOutcome,
    SessionVerdict,
    Spec,
    Verdict,
    plural,
)

from . import accepting, machine
from .session import Judged, Measured, Resolved, TimedJob
from .settings import Settings
from .terminal import Display


def measured(
    resolved: Resolved,
    executor: driver.Executor,
    display: Display,
    keep: Callable[[Measured], None],
) -> Measured:
    """Measure all cases. The measurements so far go to `keep`, also after an interrupt."""
    if not resolved.jobs:
        return Measured(resolved=resolved)
    schedule = _schedule(resolved, executor, display)
    begun_s, notes, interrupted = time.monotonic(), [], False
    try:
        schedule.run()
        notes += _measure_undecided(resolved, schedule, display)
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        found = replace(
            _so_far(resolved, schedule),
            measuring_s=time.monotonic() - begun_s,
            spent_s=dict(executor.spent_s),
            interrupted=interrupted,
            notes=tuple(notes),
        )
        keep(found)
        display.done("interrupted after" if interrupted else "measured in", found.measuring_s)
    return found


def _schedule(
    resolved: Resolved, executor: driver.Executor, display: Display
) -> driver.AbstractSchedule:
    settings, device = resolved.settings, resolved.machine.target.device
    ranks: dict[str, int] = {}
    for spec, job in resolved.jobs.items():
        # Training on one device takes fewer ranks than the other cases.
        ranks[spec.framework] = max(ranks.get(spec.framework, 0), job.key.ranks)
    stacks = {
        side: driver.Stack(
            starters={
                name: machine.starter_of(settings, name, device, ranks[name], side=side)
                for name in ranks
            },
            # Only the candidate is made slower, not the reference.
            injection=settings.injection if side is Side.CANDIDATE else None,
        )
        for side in (Side if resolved.paired else (Side.CANDIDATE,))
    }
    return driver.SCHEDULES["pairs" if resolved.paired else "passes"](
        executor=executor,
        # Two strategies can be two names of one Case: it is measured once.
        cases={job.case: job.key for job in resolved.jobs.values()},
        plan=resolved.plan,
        stacks=stacks,
        shared=device is Device.CPU,
        examples=resolved.examples,
        on_progress=display.progress,
    )


def _so_far(resolved: Resolved, schedule: driver.AbstractSchedule) -> Measured:
    return Measured(
        resolved=resolved,
        measurements=_by_spec(resolved, schedule, Side.CANDIDATE),
        references=_by_spec(resolved, schedule, Side.REFERENCE) if resolved.paired else {},
    )


def _by_spec(
    resolved: Resolved, schedule: driver.AbstractSchedule, side: Side
) -> dict[Spec, Measurement]:
    found = {measurement.case: measurement for measurement in schedule.measurements(side)}
    return {spec: found[job.case] for spec, job in resolved.jobs.items()}


def _measure_undecided(
    resolved: Resolved, schedule: driver.AbstractSchedule, display: Display
) -> list[str]:
    """More launches of undecided cases; a note if the time is spent before all are decided."""
    begun_s = time.monotonic()
    while True:
        found = _so_far(resolved, schedule)
        launches = {
            spec: len(one.runs) + len(one.failures) for spec, one in found.measurements.items()
        }
        wanted = judge.rerun(_rulings(found), launches)
        if not wanted.specs:
            return []
        budget_s = resolved.settings.time_budget_s
        if time.monotonic() - begun_s > budget_s:
            return [
                f"--time-budget of {budget_s:g} s for further launches is spent; still undecided: "
                f"{', '.join(spec.id for spec in wanted.specs)}"
            ]
        shown = ", ".join(spec.id for spec in wanted.specs[:3])
        more = f" and {len(wanted.specs) - 3} more" if len(wanted.specs) > 3 else ""
        display.say(f"busbw: {plural(wanted.passes, 'further launch')} of {shown}{more}")
        again = tuple(dict.fromkeys(resolved.jobs[spec].case for spec in wanted.specs))
        schedule.passes(again, wanted.passes)


def _rulings(measured: Measured) -> dict[Spec, judge.Ruling]:
    """The verdict so far on every measured case."""
    return {spec: _ruling(measured, spec, job) for spec, job in measured.resolved.jobs.items()}


def judged(measured: Measured, skip: str) -> Judged:
    """The verdicts of all cases and of the session; `skip` names an option that asks to skip."""
    resolved, found = measured.resolved, _rulings(measured)
    verdicts = {**resolved.skipped, **{spec: one.verdict for spec, one in found.items()}}
    verdicts = {spec: verdicts[spec] for spec in resolved.specs}
    groups = judge.groups_of_cases(
        list(verdicts.values()),
        judge.POLICIES[resolved.machine.target.device],
        paired=resolved.paired,
    )
    verdicts = _located(verdicts, groups)
    session = judge.judge_session(
        list(verdicts.values()),
        list(measured.measurements.values()),
        judge.Circumstances(
            launches=resolved.plan.launches,
            expecting=not resolved.paired,
            accepting=_accepting(resolved.settings),
            asked_to_skip=skip,
            missing=_missing(resolved, verdicts),
            fallen_back=_fallen_back(resolved),
            suspected=tuple(spec.id for spec, one in found.items() if one.suspected),
            shifted=_shifted(measured),
            curve=tuple(
                f"{group.case.group_name}: {group.shifted.text}"
                for group in groups
                if group.shifted is not None
            ),
        ),
    )
    return Judged(
        settings=resolved.settings,
        session=session,
        verdicts=verdicts,
        observed=measured,
        groups=groups,
    )


def given_up(
    settings: Settings, specs: Sequence[Spec], compiled: Sequence[CompileSpec], why: str
) -> Judged:
    """The probe was cut short: every case fails, and the session has no verdict."""
    return Judged(
        settings=settings,
        session=SessionVerdict(outcome=SessionOutcome.NO_VERDICT, text=why),
        verdicts={
            spec: Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=why)
            for spec in specs
        },
        compiled={
            spec: CompiledVerdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=why)
            for spec in compiled
        },
    )


def _ruling(measured: Measured, spec: Spec, job: TimedJob) -> judge.Ruling:
    """The verdict so far on one case, compared with what the hardware allows."""
    found = _compared(measured, spec, job)
    verdict = judge.with_ceiling(
        found.verdict,
        job.slice_key,
        measured.measurements[spec].runs,
        paired=measured.resolved.paired,
    )
    if verdict.outcome is Outcome.FAILED:
        # More launches do not change a failure.
        return judge.Ruling(verdict=verdict)
    return replace(found, verdict=verdict)


def _compared(measured: Measured, spec: Spec, job: TimedJob) -> judge.Ruling:
    resolved, measurement = measured.resolved, measured.measurements[spec]
    settings, policy = resolved.settings, judge.POLICIES[resolved.machine.target.device]
    terms = judge.Terms(policy=policy, cases=len(resolved.jobs), launches=resolved.plan.launches)
    if resolved.paired:
        return judge.judge_pair(spec, measured.references[spec], measurement, terms)
    baseline = job.stored.baseline
    terms = replace(
        terms,
        require_baselines=settings.require_baselines,
        accept_all=accepting.takes_slower(settings, baseline, measurement, policy.budget),
        accept_new=settings.update_baselines == "new",
        memory_limit_bytes=settings.memory_limit_bytes,
    )
    return judge.judge_case(
        spec, measurement, baseline, terms, nearest=job.stored.nearest, reference=job.published
    )


def _accepting(settings: Settings) -> bool:
    """Whether out of memory is to be stored as the machine's own limit."""
    return settings.update_baselines in ("all", "new") and settings.memory_limit_bytes is None


def _located(
    verdicts: Mapping[Spec, Verdict], groups: Sequence[judge.SizeGroup]
) -> dict[Spec, Verdict]:
    """The verdicts, with a note on each slower case about the shape over the sizes."""
    located = {group.case.group_name: group.located for group in groups if group.located}
    found = dict(verdicts)
    for spec, verdict in verdicts.items():
        shape = located.get(verdict.case.group_name) if verdict.case else None
        if shape is not None and verdict.outcome is Outcome.REGRESSED:
            text = f"over the sizes: {shape.kind.value}: {shape.text}"
            found[spec] = replace(verdict, notes=(*verdict.notes, text))
    return found


def _missing(resolved: Resolved, verdicts: Mapping[Spec, Verdict]) -> tuple[str, ...]:
    """Selected cases that have baselines here but were skipped, by framework."""
    unreached = resolved.machine.target.unreached
    out_of_reach = {*unreached, *resolved.settings.absent_frameworks}
    skipped = {
        spec.framework: verdict.text
        for spec, verdict in verdicts.items()
        if verdict.outcome is Outcome.SKIPPED and spec.framework in out_of_reach
    }
    return tuple(text for name, text in skipped.items() if name in resolved.stored_frameworks)


def _fallen_back(resolved: Resolved) -> tuple[str, ...]:
    """Clocks and algorithms that differ from the baseline's, though nobody asked."""
    found = []
    for spec, job in resolved.jobs.items():
        case, before = job.case, job.stored.baseline
        if before is not None and before.case.clock is not case.clock and spec.clock == "default":
            found.append(
                f"{case.framework}: the clock fell back to {case.clock.value}, "
                f"the baseline was read from {before.case.clock.value}"
            )
        if before is None and job.stored.other_strategy and spec.strategy == "default":
            found.append(
                f"{case.framework}: the default is {case.strategy} now, "
                f"the baseline is of {job.stored.other_strategy}"
            )
    return tuple(dict.fromkeys(found))


def _shifted(measured: Measured) -> str:
    """Whether the whole machine runs at another speed, and what else changed."""
    resolved, moved, before = measured.resolved, [], None
    for spec, job in resolved.jobs.items():
        stored, runs = job.stored.baseline, measured.measurements[spec].runs
        with_anchor = [] if stored is None else [one for one in stored.sessions if one.anchors_s]
        if with_anchor and stats.anchors_s(runs):
            before = with_anchor[-1]
            moved.append(_moved(measured.measurements[spec], with_anchor))
    text = judge.environment_shift(moved, judge.POLICIES[resolved.machine.target.device])
    if not text or before is None:
        return text
    environment = resolved.environment
    now = {name: text for one in environment.versions.values() for name, text in one.items()}
    differences = judge.differences(
        {**before.versions, **before.surroundings},
        {**now, **machine.surroundings(environment)},
    )
    return f"{text}; {'; '.join(differences) or 'versions and flags are as they were'}"


def _moved(measurement: Measurement, sessions: Sequence[BaselineSession]) -> judge.Moved:
    return judge.moved(
        [stats.launch_time_s(run) for run in measurement.runs],
        stats.anchors_s(measurement.runs),
        [time_s for one in sessions for time_s in one.times_s],
        [anchor_s for one in sessions for anchor_s in one.anchors_s],
    )

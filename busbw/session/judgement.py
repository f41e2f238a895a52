"""Measured → Judged: which is compared with which reference, on which terms, not by which rule."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from busbw.baselines.store import other_ranks
from busbw.judge.case import Ruling, Terms, judge_case
from busbw.judge.levels import Drift, all_answers, cost_of_limit, drift_text, drifts
from busbw.judge.paired import judge_pair, prior_of_pairs
from busbw.judge.policy import POLICIES, Policy
from busbw.judge.rule import Tonight
from busbw.judge.session import (
    Circumstances,
    SizeGroup,
    groups_of_cases,
    judge_session,
    slower_text,
)
from busbw.judge.validity import straggler_of, with_ceiling, with_injections
from busbw.model.case import Case, Spec
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome, plural

from . import acceptance, references
from .settings import Settings
from .state import Collected, Judged, Measured, TimedJob, TimedResolved

_Rule = Callable[[Spec, TimedJob], Ruling]


def rulings(measured: Measured) -> dict[Spec, Ruling]:
    rule = _paired(measured) if measured.resolved.paired else _stored(measured)
    return {
        spec: _ruling(measured, spec, job, rule) for spec, job in measured.resolved.jobs.items()
    }


def _ruling(measured: Measured, spec: Spec, job: TimedJob, rule: _Rule) -> Ruling:
    found = rule(spec, job)
    verdict = with_ceiling(
        found.verdict,
        job.slice_key,
        measured.measurements[spec].runs,
        paired=measured.resolved.paired,
    )
    straggler = straggler_of(
        measured.measurements[spec].runs, job.key, measured.resolved.machine.process_hosts
    )
    verdict = replace(verdict, straggler=straggler)
    if verdict.outcome is Outcome.FAILED:
        # More launches do not change a failure.
        return Ruling(verdict=verdict)
    return replace(found, verdict=verdict)


def _paired(measured: Measured) -> _Rule:
    terms = _terms(measured.resolved)
    pairs = {
        job.case: (measured.references[spec], measured.measurements[spec])
        for spec, job in measured.resolved.jobs.items()
    }
    prior = prior_of_pairs(pairs.values(), terms)

    def rule(spec: Spec, job: TimedJob) -> Ruling:
        before, now = pairs[job.case]
        return judge_pair(spec, before, now, terms, prior)

    return rule


def _stored(measured: Measured) -> _Rule:
    """Each case against its baseline and what has been usual since."""
    limits = references.tonight(measured)

    def rule(spec: Spec, job: TimedJob) -> Ruling:
        there = limits.get(job.key)
        return judge_case(
            spec,
            measured.measurements[spec],
            job.stored.baseline,
            there.limits.get(job.case) if there else None,
            _stored_terms(measured, spec, job),
            nearest=job.stored.nearest,
            published=job.published,
        )

    return rule


def _terms(resolved: TimedResolved) -> Terms:
    return Terms(
        policy=POLICIES[resolved.machine.target.device],
        cases=len(resolved.jobs),
        launches=resolved.plan.launches,
    )


def _stored_terms(measured: Measured, spec: Spec, job: TimedJob) -> Terms:
    settings, terms = measured.resolved.settings, _terms(measured.resolved)
    return replace(
        terms,
        require_baselines=settings.require_baselines,
        accept_all=acceptance.takes_slower(
            settings, job.stored.baseline, measured.measurements[spec], terms.policy.budget
        ),
        accept_new=settings.update_baselines == "new",
        memory_limit_bytes=settings.memory_limit_bytes,
        fail_above=settings.fail_above,
    )


def judged(measured: Measured, skip: str) -> Judged:
    """The verdicts of all cases and of the session; `skip` names an option that asks to skip."""
    resolved, found = measured.resolved, rulings(measured)
    verdicts = {**resolved.skipped, **{spec: one.verdict for spec, one in found.items()}}
    verdicts = {spec: verdicts[spec] for spec in resolved.specs}
    policy = POLICIES[resolved.machine.target.device]
    tonight = references.tonight(measured)
    groups = groups_of_cases(list(verdicts.values()), policy, in_turn=resolved.paired)
    verdicts = with_injections(_located(verdicts, groups), measured.measurements)
    drifted, slower = _drifted(measured, tonight), _slower(measured, tonight, groups)
    elsewhere = _other_ranks(resolved)
    required = bool(elsewhere) and resolved.settings.require_baselines
    session = judge_session(
        list(verdicts.values()),
        list(measured.measurements.values()),
        Circumstances(
            launches=resolved.plan.launches,
            expecting=not resolved.paired,
            accepting=_accepting(resolved.settings),
            asked_to_skip=skip,
            missing=_missing(resolved, verdicts),
            fallen_back=(*_fallen_back(resolved), *([elsewhere] if required else [])),
            lost=measured.lost,
            suspected=tuple(spec.id for spec, one in found.items() if one.suspected),
            slower=slower,
            drifted=drift_text([one for one in drifted if not one.is_over]),
            asides=(
                drift_text([one for one in drifted if one.is_over]),
                "" if required else elsewhere,
            ),
            blind=_blind(resolved, policy),
            noisier=max((one.noisier for one in tonight.values()), default=1.0),
            accepted=resolved.settings.update_baselines == "all",
            machine=all_answers(references.machine_answers(measured)),
            stack_changes=references.stack_changes(measured),
        ),
    )
    return Judged(
        collected=resolved.collected,
        session=_with_cost(session, measured, tonight),
        verdicts=verdicts,
        observed=measured,
        groups=groups,
        moved=_moved(measured, drifted, tonight),
    )


def _blind(resolved: TimedResolved, policy: Policy) -> float:
    """The limit from which on a NOISY case was not judged: any for two stacks in turn."""
    if resolved.paired:
        return 1.0
    return math.inf if resolved.settings.fail_above is not None else 1.0 + policy.rule.blind


def _with_cost(
    session: SessionVerdict,
    measured: Measured,
    tonight: Mapping[EnvironmentKey, Tonight],
) -> SessionVerdict:
    ratio = measured.resolved.settings.fail_above
    if ratio is None:
        return session
    levels = [measured.resolved.levels[key] for key in tonight]
    cost = cost_of_limit(levels, list(tonight.values()), ratio)
    return replace(session, text=f"{session.text}; {cost}") if cost else session


def _slower(
    measured: Measured,
    tonight: Mapping[EnvironmentKey, Tonight],
    groups: Sequence[SizeGroup],
) -> tuple[str, ...]:
    """What all cases of a framework lost, or the latency or the bandwidth of one of its curves."""
    counts = Counter(job.case.framework for job in measured.resolved.jobs.values())
    whole = (
        slower_text(name, counts[name], shared)
        for one in tonight.values()
        for name, shared in one.shared.items()
    )
    curves = (f"{group.case.group_name}: {group.shifted}" for group in groups if group.shifted)
    return (*filter(None, whole), *curves)


def _drifted(measured: Measured, tonight: Mapping[EnvironmentKey, Tonight]) -> tuple[Drift, ...]:
    levels, today = measured.resolved.levels, references.today(measured)
    return tuple(
        one
        for key, limits in tonight.items()
        for one in drifts(levels[key].sessions, today[key], limits)
    )


def _moved(
    measured: Measured,
    drifted: Sequence[Drift],
    tonight: Mapping[EnvironmentKey, Tonight],
) -> frozenset[Case]:
    """A reason also accepts those of a framework that is slower as a whole."""
    there = [one for one in drifted if not one.is_over]
    frameworks = {one.framework for one in there if one.case is None}
    if measured.resolved.settings.accept_regression:
        parts = (one.shared.items() for one in tonight.values())
        frameworks |= {name for part in parts for name, shared in part if shared.is_slower}
    cases = {one.case for one in there if one.case is not None}
    return frozenset(
        job.case
        for job in measured.resolved.jobs.values()
        if job.case in cases or job.case.framework in frameworks
    )


def given_up(
    collected: Collected,
    specs: Sequence[Spec],
    why: str,
    *,
    outcome: Outcome = Outcome.FAILED,
) -> Judged:
    """There is no probe: every case fails with `outcome`, and the session has no verdict."""
    holds: tuple[SessionOutcome, ...] = (SessionOutcome.NO_VERDICT,)
    if specs:
        holds = (SessionOutcome.FAILED, *holds)
    return Judged(
        collected=collected,
        session=SessionVerdict(outcomes=holds, text=why),
        verdicts={
            spec: Verdict(spec=spec, outcome=outcome, failed=True, text=why) for spec in specs
        },
    )


def _accepting(settings: Settings) -> bool:
    """Whether out of memory is to be stored as the machine's own limit."""
    return settings.update_baselines in ("all", "new") and settings.memory_limit_bytes is None


def _located(verdicts: Mapping[Spec, Verdict], groups: Sequence[SizeGroup]) -> dict[Spec, Verdict]:
    located = {group.case.group_name: group.located for group in groups if group.located}
    found = dict(verdicts)
    for spec, verdict in verdicts.items():
        shape = located.get(verdict.case.group_name) if verdict.case else None
        if shape and verdict.outcome is Outcome.REGRESSED:
            text = f"over the sizes: {shape}"
            found[spec] = replace(verdict, notes=(*verdict.notes, text))
    return found


def _missing(resolved: TimedResolved, verdicts: Mapping[Spec, Verdict]) -> tuple[str, ...]:
    """Selected cases that have baselines here but were skipped, by framework."""
    unreached = resolved.machine.target.unreached
    out_of_reach = {*unreached, *resolved.settings.absent_frameworks}
    skipped = {
        spec.framework: verdict.text
        for spec, verdict in verdicts.items()
        if verdict.outcome is Outcome.SKIPPED and spec.framework in out_of_reach
    }
    return tuple(text for name, text in skipped.items() if name in resolved.stored_frameworks)


def _other_ranks(resolved: TimedResolved) -> str:
    """Such as ``8 ranks here until 2026-11-20, 7 today``, where nobody asked for other ranks.

    That is where this kind of device has baselines of another number of ranks, and none of today's.
    """
    settings, key = resolved.settings, resolved.environment.key
    asked = settings.ranks or settings.asked.mesh or settings.agents or settings.processes > 1
    if asked or resolved.paired or not resolved.jobs:
        return ""
    found = other_ranks(settings.baselines, key)
    if not found:
        return ""
    ranks, day = max(found.items(), key=lambda one: one[1])
    return f"{plural(ranks, 'rank')} here until {day}, {key.ranks} today"


def _fallen_back(resolved: TimedResolved) -> tuple[str, ...]:
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

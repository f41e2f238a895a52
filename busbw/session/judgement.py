"""Measured → Judged: which is compared with which reference, on which terms, not by which rule."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw import extensions
from busbw.baselines.store import frameworks_at, other_ranks
from busbw.judge.case import Ruling, Terms, judge_case
from busbw.judge.findings import Finding, merge_findings
from busbw.judge.lasting_losses import Assessment
from busbw.judge.levels import (
    Loss,
    find_losses,
    losses_text,
    odd_sessions,
    odd_text,
    repaired_text,
)
from busbw.judge.paired import estimate_prior_of_pairs, judge_pair
from busbw.judge.session import SessionContext, fit_groups, judge_session, slower_text
from busbw.judge.summation_order import change_text, signature_of
from busbw.judge.undecided import NoisyCasePolicy
from busbw.judge.validity import apply_ceiling, note_injections
from busbw.model.case import Case, Spec
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import changes
from busbw.model.verdict import SessionVerdict, SizeGroup, Verdict
from busbw.model.words import Outcome, SessionOutcome, plural

from . import acceptance, references
from .state import Collected, Judged, Measured


def rulings(measured: Measured) -> dict[Spec, Ruling]:
    found = _paired(measured) if measured.paired else _stored(measured)
    return {spec: _with_findings(measured, spec, one) for spec, one in found.items()}


def _with_findings(measured: Measured, spec: Spec, ruling: Ruling) -> Ruling:
    """Return the ruling with the limits of the hardware, and what else is noticed at the case."""
    runs = measured.measurements[spec].runs
    slice_key = measured.machine.target.slice_key(spec)
    verdict = apply_ceiling(ruling.verdict, slice_key, runs, paired=measured.paired)
    order, _ = order_change(measured, spec)
    merged = merge_findings(
        replace(verdict, notes=(*verdict.notes, *([order] if order else []))),
        findings_at(measured, spec, verdict),
    )
    if merged.outcome is Outcome.FAILED:
        # More launches do not change a failure.
        return Ruling(verdict=merged)
    is_doubted = verdict.outcome is Outcome.REGRESSED and merged.outcome is Outcome.NOISY
    return replace(ruling, verdict=merged, is_doubted=is_doubted)


def findings_at(measured: Measured, spec: Spec, verdict: Verdict) -> list[Finding]:
    """Return what extensions notice at a case, of which `verdict` is the verdict so far."""
    return [find(measured, spec, verdict) for find in extensions.table("FINDINGS").values()]


def order_change(measured: Measured, spec: Spec) -> tuple[str, str | None]:
    """Return how the order of additions of a case changed, and the signature before.

    The text is empty for no change. The signature is that of the reference or of the baseline,
    empty for none, and None for a case that is compared with nothing.
    """
    stored, runs = measured.jobs[spec].stored.baseline, measured.measurements[spec].runs
    theirs = measured.references[spec].runs if measured.paired else ()
    if theirs:
        before, versions = signature_of(theirs), theirs[0].versions
    elif stored is not None and stored.case.protocol == measured.jobs[spec].case.protocol:
        before, versions = stored.signature, stored.versions
    else:
        return change_text(runs, "", ()), None
    since = changes(versions, runs[0].versions) if runs else ()
    return change_text(runs, before, since), before


def _paired(measured: Measured) -> dict[Spec, Ruling]:
    terms = _terms(measured)
    pairs = {
        spec: (measured.references[spec], measured.measurements[spec]) for spec in measured.jobs
    }
    # Two strategies can be two names of one Case.
    prior = estimate_prior_of_pairs(
        {job.case: pairs[spec] for spec, job in measured.jobs.items()}.values(), terms
    )
    return {spec: judge_pair(spec, *sides, terms, prior) for spec, sides in pairs.items()}


def _stored(measured: Measured) -> dict[Spec, Ruling]:
    """Each case against its baseline and what has been usual since."""
    limits, terms = references.assessments(measured), _terms(measured)
    found = {}
    for spec, job in measured.jobs.items():
        now, there = measured.measurements[spec], limits.get(job.key)
        takes = acceptance.takes_slower(
            measured.settings, job.stored.baseline, now, terms.policy.budget
        )
        found[spec] = judge_case(
            spec,
            now,
            job.stored.baseline,
            there.limits.get(job.case) if there else None,
            replace(terms, accept_all=takes),
            state=there.states.get(job.case) if there else None,
            incomparable=job.stored.incomparable,
            published=job.published,
        )
    return found


def _terms(measured: Measured) -> Terms:
    settings = measured.settings
    return Terms(
        policy=measured.policy,
        cases=len(measured.jobs),
        launches=measured.plan.launches,
        require_baselines=settings.require_baselines,
        accept_new=settings.update_baselines == "new",
        memory_limit_bytes=settings.memory_limit_bytes,
        fail_above=settings.fail_above,
    )


def judged(measured: Measured, skip: str) -> Judged:
    """The verdicts of all cases and of the session; `skip` names an option that asks to skip."""
    found, assessments = rulings(measured), references.assessments(measured)
    verdicts = {**measured.skipped, **{spec: one.verdict for spec, one in found.items()}}
    verdicts = {spec: verdicts[spec] for spec in measured.specs}
    groups = fit_groups(list(verdicts.values()), measured.policy, interleaved=measured.paired)
    verdicts = note_injections(verdicts, measured.measurements)
    lost = _losses(measured, assessments)
    about = replace(
        _circumstances(measured, verdicts),
        skip_option=skip,
        unconfirmed=tuple(spec.id for spec, one in found.items() if one.is_suspected),
        noisy_cases=_noisy_cases(measured, found),
        slower=_slower(measured, assessments, lost, groups, found),
        drift=losses_text([one for one in lost if one.case is None and one.is_gradual]),
        noise_ratio=max((one.noise_ratio for one in assessments.values()), default=1.0),
        noisy_sessions=max((one.noisy_sessions for one in assessments.values()), default=0),
    )
    about = replace(about, notes=(*about.notes, *_asides(assessments)))
    session = judge_session(list(verdicts.values()), list(measured.measurements.values()), about)
    return Judged(
        collected=measured.collected,
        session=session,
        verdicts=verdicts,
        observed=measured,
        groups=groups,
        moved=_moved(measured, assessments, lost),
    )


def _circumstances(measured: Measured, verdicts: Mapping[Spec, Verdict]) -> SessionContext:
    settings, elsewhere = measured.settings, _other_ranks(measured)
    required = bool(elsewhere) and settings.require_baselines
    return SessionContext(
        launches=measured.plan.launches,
        has_baselines=not measured.paired,
        # Out of memory is stored as the machine's own limit.
        accepts_new=settings.update_baselines in ("all", "new")
        and settings.memory_limit_bytes is None,
        missing=_missing(measured, verdicts),
        fallbacks=(*_fallen_back(measured), *([elsewhere] if required else [])),
        early_end=measured.lost,
        notes=("" if required else elsewhere,),
        accepts_all=settings.update_baselines == "all",
        machine=references.machine_answer(measured),
        stack_changes=references.stack_changes(measured),
    )


def _noisy_cases(measured: Measured, found: Mapping[Spec, Ruling]) -> NoisyCasePolicy:
    """Return which NOISY cases count; two stacks that are interleaved share all disturbances."""
    policy, is_fixed = measured.policy, measured.settings.fail_above is not None
    if measured.paired:
        return NoisyCasePolicy()
    return NoisyCasePolicy(
        # The user chose how wide the limit is.
        max_useful_ratio=math.inf if is_fixed else 1.0 + policy.rule.max_useful_limit,
        is_shared=policy.is_shared,
        is_fixed=is_fixed,
        doubted=frozenset(spec for spec, one in found.items() if one.is_doubted),
    )


def _slower(
    measured: Measured,
    assessments: Mapping[EnvironmentKey, Assessment],
    lost: Sequence[Loss],
    groups: Sequence[SizeGroup],
    found: Mapping[Spec, Ruling],
) -> tuple[str, ...]:
    """Return what all cases of a framework lost, or the latency or bandwidth of a curve.

    Nothing is said of all cases of a framework if it is doubted that some are slower.
    """
    counts = Counter(job.case.framework for job in measured.jobs.values())
    doubted = {spec.framework for spec, one in found.items() if one.is_doubted}
    shared = [item for one in assessments.values() for item in one.shared.items()]
    whole = [slower_text(name, counts[name], one) for name, one in shared if name not in doubted]
    lasting = [one for one in lost if one.case is None and not one.is_gradual and one.sessions > 1]
    curves = (f"{group.case.group_name}: {group.shifted}" for group in groups if group.shifted)
    return (*filter(None, whole), *(one.text for one in lasting), *curves)


def _losses(
    measured: Measured, assessments: Mapping[EnvironmentKey, Assessment]
) -> tuple[Loss, ...]:
    today = references.today(measured)
    return tuple(
        one
        for key, judged in assessments.items()
        for one in find_losses(measured.levels[key].sessions, today[key], judged)
    )


def _asides(assessments: Mapping[EnvironmentKey, Assessment]) -> tuple[str, ...]:
    """Say which losses are over, and whether the accepted session was odd."""
    return tuple(text(one) for one in assessments.values() for text in (repaired_text, odd_text))


def _moved(
    measured: Measured, assessments: Mapping[EnvironmentKey, Assessment], lost: Sequence[Loss]
) -> frozenset[Case]:
    """Return the cases whose stored times an update replaces, even if the session looks unchanged.

    Those with a loss that lasts, those of which the accepted session was odd, and all of a session
    that is noisier than usual; with a reason those of frameworks that are slower as a whole, too.
    """
    moved: set[Case | str | None] = {one.case or one.framework for one in lost}
    for judged in assessments.values():
        moved |= set(odd_sessions(judged))
        if judged.is_noisy:
            moved |= set(judged.shared)
        if measured.settings.accept_regression:
            moved |= judged.slower
    return frozenset(
        job.case
        for job in measured.jobs.values()
        if job.case in moved or job.case.framework in moved
    )


def given_up(
    collected: Collected, specs: Sequence[Spec], why: str, outcome: Outcome = Outcome.FAILED
) -> Judged:
    """There is no probe: every case fails with `outcome`, and the session has no verdict."""
    holds = (SessionOutcome.FAILED, SessionOutcome.NO_VERDICT)
    return Judged(
        collected=collected,
        session=SessionVerdict(outcomes=holds, text=why),
        verdicts={
            spec: Verdict(spec=spec, outcome=outcome, failed=True, text=why) for spec in specs
        },
    )


def _missing(measured: Measured, verdicts: Mapping[Spec, Verdict]) -> tuple[str, ...]:
    """Selected cases that have baselines here but were skipped, by framework."""
    settings = measured.settings
    if measured.paired:
        return ()
    out_of_reach = {*measured.machine.target.unreached, *settings.absent_frameworks}
    skipped = {
        spec.framework: verdict.text
        for spec, verdict in verdicts.items()
        if verdict.outcome is Outcome.SKIPPED and spec.framework in out_of_reach
    }
    stored = frameworks_at(settings.baselines, measured.environment.key)
    return tuple(text for name, text in skipped.items() if name in stored)


def _other_ranks(measured: Measured) -> str:
    """Such as ``8 ranks here until 2026-11-20, 7 today``, where nobody asked for other ranks.

    That is where this kind of device has baselines of another number of ranks, and none of today's.
    """
    settings, key = measured.settings, measured.environment.key
    asked = settings.ranks or settings.asked.mesh or settings.cluster or settings.processes > 1
    # Two processes share the one GPU that was found: there may have been more, and nobody asked.
    is_implied = key.shared and not settings.share_devices
    if (asked and not is_implied) or measured.paired or not measured.jobs:
        return ""
    found = other_ranks(settings.baselines, key)
    if not found:
        return ""
    ranks, day = max(found.items(), key=lambda one: one[1])
    shared = " on a shared device" if key.shared else ""
    return f"{plural(ranks, 'rank')} here until {day}, {key.ranks} today{shared}"


def _fallen_back(measured: Measured) -> tuple[str, ...]:
    """Clocks and algorithms that differ from the baseline's, though nobody asked."""
    found = []
    for spec, job in measured.jobs.items():
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

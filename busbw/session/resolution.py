"""Machine → Measured, of nothing yet: cases, what they are compared with, and what is left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from busbw import grid
from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_writable
from busbw.baselines.store import find, find_published
from busbw.driver.executor import Executor
from busbw.history.files import HistoryError
from busbw.judge.levels import Levels
from busbw.model.case import Case, GridError, Spec
from busbw.model.launch import Plan
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from busbw.storage import OutputError

from . import machine, references
from .errors import UsageError, usage_error
from .folders import shipped_folder
from .settings import Settings, how_to_get
from .state import Collected, Machine, Measured, TimedJob

# A launch of two stacks in turn costs two processes to start: a few more samples are worth it.
_PLAN_IN_TURN = Plan(samples=40, budget_s=1.5)


def resolved(
    collected: Collected,
    found: Machine,
    specs: tuple[Spec, ...],
    executor: Executor,
    say: Callable[[str], None],
) -> Measured:
    """Return all that will be measured.

    A reference stack is built, which `say` announces. Raises UsageError for a Spec that is
    no case, for a damaged baseline, and for a reference that cannot be built or would measure
    other cases.
    """
    target = found.target
    skipped, case_of = _cases(collected.settings, target, specs)
    frameworks = tuple(dict.fromkeys(spec.framework for spec in case_of))
    jobs, levels = _stored(collected, target, case_of)
    collected = references.with_stacks(collected, target, frameworks, say)
    settings = collected.settings
    if settings.against is not None:
        found = machine.with_reference(settings, found, frameworks, executor)
        _check_same_cases(settings, target, case_of, found.references)
    with usage_error(HistoryError, OSError):
        nights = references.nights_of(settings, jobs.values())
        wrong_before = references.wrong_before(settings, jobs.values())
    for case, day in wrong_before.items():
        executor.on_note(f"{case.name}: wrong on {day}, and twice as often as others")
    return Measured(
        collected=collected,
        machine=found,
        specs=specs,
        jobs=jobs,
        skipped=skipped,
        environment=machine.environment(settings, found, _widest(jobs.values())),
        plan=_plan(settings),
        levels=levels,
        nights=nights,
        wrong_before=wrong_before,
    )


def _widest(jobs: Iterable[TimedJob]) -> EnvironmentKey | None:
    return max((job.key for job in jobs), key=lambda key: key.ranks, default=None)


def _plan(settings: Settings) -> Plan:
    return replace(
        Plan() if settings.against is None else _PLAN_IN_TURN,
        launches=settings.launches,
        timeout_s=settings.case_timeout_s,
        seed=int.from_bytes(os.urandom(4), "big"),
        memory_limit_bytes=settings.memory_limit_bytes,
    )


def _cases(
    settings: Settings, target: grid.Target, specs: Sequence[Spec]
) -> tuple[dict[Spec, Verdict], dict[Spec, Case]]:
    """Resolve the Specs; one whose framework is not there is SKIPPED with the reason."""
    skipped, found = {}, {}
    for spec in specs:
        reason = _left_out(spec, settings, target)
        if reason:
            skipped[spec] = Verdict(spec=spec, outcome=Outcome.SKIPPED, failed=False, text=reason)
        else:
            with usage_error(GridError):
                found[spec] = grid.resolve(spec, target)
    return skipped, found


def _left_out(spec: Spec, settings: Settings, target: grid.Target) -> str:
    if spec.framework in settings.absent_frameworks:
        return f"{spec.framework}: not installed here; {how_to_get(spec.framework)}"
    if spec.framework in target.unreached:
        return f"{spec.framework}: {target.unreached[spec.framework]}"
    return ""


def _check_same_cases(
    settings: Settings,
    ours: grid.Target,
    case_of: Mapping[Spec, Case],
    probed: Sequence[Probe],
) -> None:
    with usage_error(GridError, where="the reference: "):
        targets = {
            probe.framework: grid.choose_target(
                device=ours.device, ranks=settings.ranks, probes=[probe], named=[probe.framework]
            )
            for probe in probed
        }
        found = {spec: grid.resolve(spec, targets[spec.framework]) for spec in case_of}
    for spec, case in case_of.items():
        theirs, key = found[spec], targets[spec.framework].key(spec)
        pairs = (
            ("case", theirs.name, case.name),
            ("protocol", theirs.protocol.text, case.protocol.text),
            ("machine", str(key.folder), str(ours.key(spec).folder)),
        )
        if theirs != case or key != ours.key(spec):
            differ = "; ".join(f"{what} {a}, here {b}" for what, a, b in pairs if a != b)
            raise UsageError(f"--against: the reference would measure another case: {differ}")


def _stored(
    collected: Collected,
    target: grid.Target,
    case_of: Mapping[Spec, Case],
) -> tuple[dict[Spec, TimedJob], dict[EnvironmentKey, Levels]]:
    """The jobs and what they are held against, nothing for two stacks in turn.

    Read before anything is measured: a damaged file is found early.
    """
    settings = collected.settings
    jobs = {spec: TimedJob(case=case, key=target.key(spec)) for spec, case in case_of.items()}
    if settings.against is not None:
        return jobs, {}
    with usage_error(BaselineError, HistoryError, OutputError, OSError):
        jobs = {spec: _with_stored(settings, job) for spec, job in jobs.items()}
        if settings.writes_baselines:
            check_writable(settings.baselines, [(job.key, job.case) for job in jobs.values()])
        keys = (job.key for job in jobs.values())
        return jobs, references.levels_at(collected, keys, target.device)


def _with_stored(settings: Settings, job: TimedJob) -> TimedJob:
    root, about = settings.baselines, (job.key, job.case)
    return replace(
        job,
        stored=find(root, *about, memory_limit_bytes=settings.memory_limit_bytes),
        published=find_published(root, *about)
        or find_published(shipped_folder("baselines"), *about),
    )

"""With --topology: Collected → ProgramsResolved → Programs → Judged. Nothing is measured."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import files, grid
from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_writable
from busbw.baselines.store import find_compiled, has_compiled
from busbw.driver.executor import Executor
from busbw.driver.parallel import Job, Parallel
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.judge.compiled import CompileTerms, judge_compiled, judge_compiled_session
from busbw.model.case import Case, GridError, Spec
from busbw.model.launch import Compiled, Failure
from busbw.model.stored import CompiledBaseline
from busbw.model.verdict import Verdict
from busbw.model.words import Capability, FailureKind, Outcome

from .compilers import CompileSettings, Libtpu, library_of
from .display import Display
from .option import UsageError, usage_error
from .settings import Settings
from .state import Collected, Described, Judged, ProgramJob, Programs, ProgramsResolved

_RELEASE = "BUSBW_COMPILER_RELEASE"


def parallel_of(
    settings: Settings, asked: CompileSettings, executor: Executor, display: Display
) -> Parallel:
    # The only framework of a session that compiles.
    framework = settings.frameworks[0]
    return Parallel(
        executor=executor,
        starters=_starters(settings, asked, framework),
        workers=len(os.sched_getaffinity(0)),
        timeout_s=settings.case_timeout_s,
        cache=asked.cache,
        on_progress=display.compiled,
    )


def resolved(
    collected: Collected,
    asked: CompileSettings,
    specs: tuple[Spec, ...],
    parallel: Parallel,
) -> ProgramsResolved:
    """The compilers that there are, and their jobs. Raises UsageError."""
    compilers = _described(parallel, specs, asked)
    skipped, jobs = {}, {}
    topologies = {one.name: one for one in asked.topologies}
    for spec in specs:
        compiler = compilers[spec.compiler, spec.topology]
        if compiler.devices is None:
            skipped[spec] = Verdict(
                spec=spec, outcome=Outcome.SKIPPED, failed=False, text=compiler.missing
            )
        else:
            with usage_error(GridError, where=f"--topology={spec.topology}: "):
                case, key = grid.resolve_on(spec, compiler.devices)
            jobs[spec] = ProgramJob(topology=topologies[spec.topology], case=case, key=key)
    return ProgramsResolved(
        collected=collected,
        specs=specs,
        compilers=compilers,
        jobs=_with_stored(collected.settings, jobs),
        skipped=skipped,
    )


def compiled(
    resolved: ProgramsResolved,
    parallel: Parallel,
    display: Display,
    keep: Callable[[Programs], None],
) -> Programs:
    """Compile everything. The programs so far go to `keep`, also after an interrupt."""
    begun_s, interrupted = time.monotonic(), False
    job_of = {
        spec: Job(case=job.case, topology=job.topology, compiler=spec.compiler)
        for spec, job in resolved.jobs.items()
    }
    try:
        parallel.run(list(job_of.values()))
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        display.done("compiled in", time.monotonic() - begun_s)
        found = Programs(
            resolved=resolved,
            results={
                spec: parallel.results[job]
                for spec, job in job_of.items()
                if job in parallel.results
            },
            interrupted=interrupted,
        )
        keep(found)
    return found


def judged(programs: Programs, skip: str) -> Judged:
    """The first compiler is compared with what is stored, each next one with the one before."""
    resolved = programs.resolved
    found: dict[Spec, Verdict] = dict(resolved.skipped)
    previous: dict[Spec, CompiledBaseline | None] = {}
    labels = list(dict.fromkeys(label for label, _ in resolved.compilers))
    for spec in sorted(resolved.jobs, key=lambda one: labels.index(one.compiler)):
        job, now = resolved.jobs[spec], programs.results[spec]
        release = resolved.compilers[spec.compiler, spec.topology].release
        case_key = replace(spec, compiler="")
        first = case_key not in previous
        before = job.stored if first else previous[case_key]
        other = "" if first or before is None else before.release
        terms = _terms(resolved.settings, other, stored=first)
        found[spec] = judge_compiled(spec, job.case, now, before, terms, release=release)
        previous[case_key] = as_baseline(job.case, now, release, resolved.collected.date)
    verdicts = {spec: found[spec] for spec in resolved.specs}
    session = judge_compiled_session(
        list(verdicts.values()), asked_to_skip=skip, missing=_promised(resolved)
    )
    return Judged(
        collected=resolved.collected,
        session=session,
        verdicts=verdicts,
        observed=programs,
    )


def _promised(resolved: ProgramsResolved) -> tuple[str, ...]:
    """Topologies that have baselines but no compiler at all, with the reason, each once."""
    framework, asked = resolved.specs[0].framework, resolved.settings.compile
    compilers, root = resolved.compilers, resolved.settings.baselines
    there = {one.topology for one in compilers.values() if not one.missing}
    why = {name: one.missing for (_, name), one in compilers.items() if name not in there}
    names: dict[str, list[str]] = {}
    for one in asked.topologies if asked is not None else ():
        if one.name in why and has_compiled(root, one, framework):
            names.setdefault(why[one.name], []).append(one.name)
    return tuple(f"{', '.join(those)}: {reason}" for reason, those in names.items())


def _starters(settings: Settings, asked: CompileSettings, framework: str) -> dict[str, Starter]:
    python = settings.pythons.get(framework, sys.executable)
    libtpus: Sequence[Libtpu | None] = asked.libtpus or (None,)
    with usage_error(ValueError):
        return {
            label: Starter(
                python=python,
                framework=framework,
                capability=Capability.COMPILE,
                defaults=FRAMEWORKS[framework].environment,
                environment=_environment(libtpu, asked, fake=FRAMEWORKS[framework].scripted),
            )
            for label, libtpu in zip(asked.labels, libtpus, strict=True)
        }


def _environment(libtpu: Libtpu | None, asked: CompileSettings, *, fake: bool) -> dict[str, str]:
    if libtpu is None:
        return {}
    release = {_RELEASE: f"libtpu {libtpu.label}"}
    if fake:
        return release
    return {"TPU_LIBRARY_PATH": str(library_of(libtpu, asked.cache)), **release}


def _described(parallel: Parallel, specs: Sequence[Spec], asked: CompileSettings) -> Described:
    """Every compiler for every topology that is selected.

    A named topology that no compiler supports is an error, and so is having no compiler at all. If
    only one of several releases does not know a chip yet, that is a result and not an error.
    """
    topologies = [one for one in asked.topologies if one.name in {s.topology for s in specs}]
    found = {
        (label, one.topology): one
        for label in dict.fromkeys(spec.compiler for spec in specs)
        for one in parallel.describe(label, topologies)
    }
    there = {one.topology for one in found.values() if not one.missing}
    absent = [one for one in found.values() if one.topology not in there]
    if absent and (not asked.families or not there):
        raise UsageError(f"--topology={absent[0].topology}: {absent[0].missing}")
    return found


def _with_stored(settings: Settings, jobs: Mapping[Spec, ProgramJob]) -> dict[Spec, ProgramJob]:
    """The jobs with baselines, read before anything is compiled: a damaged file is found early."""
    root = settings.baselines
    with usage_error(BaselineError, OSError):
        if settings.writes_baselines:
            keyed = [(job.key, job.case) for job in jobs.values()]
            check_writable(root, keyed, compiled=True)
        return {spec: replace(job, stored=_stored(root, job)) for spec, job in jobs.items()}


def _stored(root: Path, job: ProgramJob) -> CompiledBaseline | None:
    """What is stored below `root`; else what busbw ships."""
    found = (find_compiled(one, job.key, job.case) for one in (root, files.shipped_baselines()))
    return next((one for one in found if one is not None), None)


def _terms(settings: Settings, other: str, *, stored: bool) -> CompileTerms:
    """`stored`: it is compared with what is stored; only then a baseline can be required."""
    terms = CompileTerms(
        require_baselines=settings.require_baselines and stored,
        accept_changes=settings.compile is not None and settings.compile.accept_changes,
        accept_all=settings.update_baselines == "all",
        accept_new=settings.update_baselines in ("all", "new"),
    )
    return replace(terms, before=other) if other else terms


def as_baseline(
    case: Case, now: Compiled | Failure, release: str, date: str
) -> CompiledBaseline | None:
    if isinstance(now, Failure) and now.kind is not FailureKind.OUT_OF_MEMORY:
        return None
    failure = now if isinstance(now, Failure) else None
    return CompiledBaseline(
        case=case,
        compiled=now if isinstance(now, Compiled) else None,
        date=date,
        release=release,
        needed_bytes=failure.needed_bytes if failure else None,
        available_bytes=failure.available_bytes if failure else None,
    )

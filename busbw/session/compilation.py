"""With --topology: what compilers make of the cases, and the verdicts. Nothing is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from busbw import grid
from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_writable
from busbw.baselines.store import find_compiled, has_compiled
from busbw.driver.executor import Executor
from busbw.driver.parallel import Parallel
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.judge.compiled import CompileTerms, judge_compiled, judge_compiled_session
from busbw.model.case import Case, GridError, Spec
from busbw.model.launch import Compiled, Failure
from busbw.model.machine import Compiler
from busbw.model.stored import CompiledBaseline
from busbw.model.verdict import Verdict
from busbw.model.words import FailureKind, Outcome
from busbw.storage import OutputError

from .compilers import CompileSettings, library_of
from .display import Display
from .folders import shipped_folder
from .machine import python_of
from .option import UsageError, usage_error
from .settings import Settings
from .state import Collected, Judged, ProgramJob, Programs

_RELEASE = "BUSBW_COMPILER_RELEASE"

# Variables of a framework that compiles, where the user has not set them.
VARIABLES = {
    "jax": {
        # Compilers only: no search for hardware, here or in a cloud's metadata.
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        # Several may compile at once: there is no chip to lock.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
}


def parallel_of(
    settings: Settings, asked: CompileSettings, executor: Executor, display: Display
) -> Parallel:
    return Parallel(
        executor=executor,
        starters=_starters(settings, asked),
        workers=len(os.sched_getaffinity(0)),
        timeout_s=settings.case_timeout_s,
        cache=asked.cache,
        on_progress=display.compiled,
    )


def resolved(
    collected: Collected, asked: CompileSettings, specs: tuple[Spec, ...], parallel: Parallel
) -> Programs:
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
            continue
        with usage_error(GridError, where=f"--topology={spec.topology}: "):
            case, key = grid.resolve_on(spec, compiler.devices)
        jobs[spec] = ProgramJob(
            case=case, topology=topologies[spec.topology], compiler=spec.compiler, key=key
        )
    # Before anything is compiled: a damaged file is found early.
    with usage_error(BaselineError, OutputError, OSError):
        if collected.settings.writes_baselines:
            keyed = [(job.key, job.case) for job in jobs.values()]
            check_writable(collected.settings.baselines, keyed, compiled=True)
        jobs = {spec: _with_stored(collected.settings, job) for spec, job in jobs.items()}
    return Programs(
        collected=collected, specs=specs, compilers=compilers, jobs=jobs, skipped=skipped
    )


def _with_stored(settings: Settings, job: ProgramJob) -> ProgramJob:
    """With what is stored; else what busbw ships."""
    roots = (settings.baselines, shipped_folder("baselines"))
    found = (find_compiled(root, job.key, job.case) for root in roots)
    return replace(job, stored=next(filter(None, found), None))


def compiled(
    resolved: Programs,
    parallel: Parallel,
    display: Display,
    keep: Callable[[Programs], None],
) -> Programs:
    """Compile everything. The programs so far go to `keep`, also after an interrupt."""
    begun_s = time.monotonic()
    try:
        parallel.run(list(resolved.jobs.values()))
    finally:
        display.done("compiled in", time.monotonic() - begun_s)
        there = parallel.results
        results = {spec: there[job] for spec, job in resolved.jobs.items() if job in there}
        found = replace(resolved, results=results)
        keep(found)
    return found


def judged(programs: Programs, skip: str) -> Judged:
    """The first compiler is compared with what is stored, each next one with the one before."""
    found: dict[Spec, Verdict] = dict(programs.skipped)
    previous: dict[Spec, CompiledBaseline | None] = {}
    labels = list(dict.fromkeys(label for label, _ in programs.compilers))
    for spec in sorted(programs.jobs, key=lambda one: labels.index(one.compiler)):
        job, now = programs.jobs[spec], programs.results[spec]
        release = programs.compilers[spec.compiler, spec.topology].release
        case_key = replace(spec, compiler="")
        first = case_key not in previous
        before = job.stored if first else previous[case_key]
        other = "" if first or before is None else before.release
        terms = _terms(programs.settings, other or "the baseline", stored=first)
        found[spec] = judge_compiled(spec, job.case, now, before, terms, release=release)
        previous[case_key] = as_baseline(job.case, now, release, programs.collected.date)
    verdicts = {spec: found[spec] for spec in programs.specs}
    session = judge_compiled_session(
        list(verdicts.values()), asked_to_skip=skip, missing=_promised(programs)
    )
    return Judged(
        collected=programs.collected, session=session, verdicts=verdicts, observed=programs
    )


def _promised(programs: Programs) -> tuple[str, ...]:
    """Topologies that have baselines but no compiler at all, with the reason, each once."""
    framework, asked = programs.specs[0].framework, programs.settings.compile
    compilers, root = programs.compilers, programs.settings.baselines
    there = {one.topology for one in compilers.values() if not one.missing}
    why = {name: one.missing for (_, name), one in compilers.items() if name not in there}
    names: dict[str, list[str]] = {}
    for one in asked.topologies if asked is not None else ():
        if one.name in why and has_compiled(root, one, framework):
            names.setdefault(why[one.name], []).append(one.name)
    return tuple(f"{', '.join(those)}: {reason}" for reason, those in names.items())


def _starters(settings: Settings, asked: CompileSettings) -> dict[str, Starter]:
    # The only framework of a session that compiles.
    framework = settings.frameworks[0]
    starter = Starter(
        python=python_of(settings, framework),
        framework=framework,
        service="compile",
        defaults=VARIABLES.get(framework, {}),
    )
    if not asked.libtpus:
        return dict.fromkeys(asked.labels, starter)
    found = {}
    for label, libtpu in zip(asked.labels, asked.libtpus, strict=True):
        environment = {_RELEASE: f"libtpu {libtpu.label}"}
        if not FRAMEWORKS[framework].scripted:
            with usage_error(ValueError):
                environment["TPU_LIBRARY_PATH"] = str(library_of(libtpu, asked.cache))
        found[label] = replace(starter, environment=environment)
    return found


def _described(
    parallel: Parallel, specs: Sequence[Spec], asked: CompileSettings
) -> dict[tuple[str, str], Compiler]:
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


def _terms(settings: Settings, before: str, *, stored: bool) -> CompileTerms:
    """`stored`: it is compared with what is stored; only then a baseline can be required."""
    return CompileTerms(
        require_baselines=settings.require_baselines and stored,
        accept_changes=settings.compile is not None and settings.compile.accept_changes,
        accept_all=settings.update_baselines == "all",
        accept_new=settings.update_baselines in ("all", "new"),
        before=before,
    )


def as_baseline(
    case: Case, now: Compiled | Failure, release: str, date: str
) -> CompiledBaseline | None:
    """None for a failure, except out of memory."""
    if isinstance(now, Compiled):
        return CompiledBaseline(case=case, compiled=now, date=date, release=release)
    if now.kind is not FailureKind.OUT_OF_MEMORY:
        return None
    return CompiledBaseline(
        case=case,
        compiled=None,
        date=date,
        release=release,
        needed_bytes=now.needed_bytes,
        available_bytes=now.available_bytes,
    )

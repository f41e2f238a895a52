"""What compilers make of the cases, and the verdicts. Nothing is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw import grid
from busbw.baselines import document, files
from busbw.driver.executor import Executor
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Case, GridError
from busbw.model.launch import Failure
from busbw.model.machine import DeviceSet, EnvironmentKey
from busbw.model.words import FailureKind, Outcome
from busbw.report.session import change_tables
from busbw.session.errors import UsageError, usage_error
from busbw.session.files import shipped_folder
from busbw.session.machine import python_of
from busbw.session.options import Options
from busbw.session.progress import Display
from busbw.session.state import Collected, Judged, Observed
from busbw.storage import OutputError

from . import baselines
from .compilers import CompileSettings, library_of
from .judge import CompileTerms, judge_compiled, judge_compiled_session
from .parallel import Job, Parallel
from .worker_values import (
    RELEASE,
    Compiled,
    CompiledBaseline,
    CompiledSpec,
    CompiledVerdict,
    Compiler,
)

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs(Observed):
    """What compilers have made of the cases; each is by its label and its topology's name."""

    compiling: CompileSettings
    specs: tuple[CompiledSpec, ...]
    jobs: Mapping[CompiledSpec, Job]
    compilers: Mapping[tuple[str, str], Compiler]
    results: Mapping[CompiledSpec, Compiled | Failure] = field(default_factory=dict)


def parallel_of(
    options: Options, compiling: CompileSettings, executor: Executor, display: Display
) -> Parallel:
    """Return what compiles with all processors. Raises UsageError for a release that is missing."""
    return Parallel(
        executor=executor,
        starters=_starters(options, compiling),
        workers=len(os.sched_getaffinity(0)),
        timeout_s=options.case_timeout,
        cache=compiling.cache,
        say=display.show_status,
    )


def resolved(
    collected: Collected,
    compiling: CompileSettings,
    specs: tuple[CompiledSpec, ...],
    parallel: Parallel,
) -> Programs:
    """Return the compilers that there are, and their jobs. Raises UsageError."""
    compilers = _described(parallel, specs, compiling)
    jobs = {}
    topologies = {topology.name: topology for topology in compiling.topologies}
    for spec in specs:
        compiler = compilers[spec.compiler, spec.topology]
        if compiler.devices is None:
            continue
        with usage_error(GridError, where=f"--topology={spec.topology}: "):
            case, key = case_on(spec, compiler.devices)
        jobs[spec] = Job(
            case=case, topology=topologies[spec.topology], compiler=spec.compiler, key=key
        )
    # Before anything is compiled: a damaged file is found early.
    with usage_error(document.BaselineError, OutputError, OSError):
        if collected.options.writes_baselines:
            keyed = [(job.key, job.case) for job in jobs.values()]
            files.check_writable(collected.options.baselines / baselines.FOLDER, keyed)
        jobs = {spec: _with_stored(collected.options, job) for spec, job in jobs.items()}
    return Programs(
        collected=collected,
        compiling=compiling,
        specs=specs,
        compilers=compilers,
        jobs=jobs,
        skipped={},
    )


def left_out(programs: Programs) -> dict[CompiledSpec, CompiledVerdict]:
    """Return the verdicts of the cases for which there is no compiler."""
    return {
        spec: CompiledVerdict(
            spec=spec,
            outcome=Outcome.SKIPPED,
            failed=False,
            text=programs.compilers[spec.compiler, spec.topology].missing,
        )
        for spec in programs.specs
        if spec not in programs.jobs
    }


def case_on(spec: CompiledSpec, devices: DeviceSet) -> tuple[Case, EnvironmentKey]:
    """Return the Case of `spec` on devices that need not be attached, and its Environment key.

    How many hosts they are on the compiler knows, which checks the mesh. Raises GridError.
    """
    target = grid.Target(device=devices.device, reason="", device_sets={spec.framework: devices})
    return grid.case_and_key(spec, target)


def _with_stored(options: Options, job: Job) -> Job:
    """Add what is stored, or else what busbw ships."""
    roots = (options.baselines, shipped_folder("baselines"))
    programs = (baselines.find(root, job.key, job.case) for root in roots)
    return replace(job, stored=next(filter(None, programs), None))


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
        display.write_duration("compiled in", time.monotonic() - begun_s)
        done = parallel.results
        results = {spec: done[job] for spec, job in resolved.jobs.items() if job in done}
        programs = replace(resolved, results=results)
        keep(programs)
    return programs


def judged(programs: Programs, skip: str) -> Judged:
    """Compare the first compiler with the baselines, each next compiler with the one before."""
    verdicts_by_spec, options = left_out(programs), programs.options
    terms = CompileTerms(
        accept_changes=programs.compiling.accept_changes,
        accept_all=options.update_baselines == "all",
        accept_new=options.update_baselines in ("all", "new"),
    )
    previous: dict[CompiledSpec, CompiledBaseline | None] = {}
    labels = list(dict.fromkeys(label for label, _ in programs.compilers))
    for spec in sorted(programs.jobs, key=lambda spec: labels.index(spec.compiler)):
        job, now = programs.jobs[spec], programs.results[spec]
        release = programs.compilers[spec.compiler, spec.topology].release
        case_key = replace(spec, compiler="")
        first = case_key not in previous
        before = job.stored if first else previous[case_key]
        other = "" if first or before is None else before.release
        # Only the first compiler is compared with baselines, which can be required only there.
        case_terms = replace(
            terms,
            require_baselines=options.require_baselines and first,
            before=other or "the baseline",
        )
        verdicts_by_spec[spec] = judge_compiled(
            spec, job.case, now, before, case_terms, release=release
        )
        previous[case_key] = as_baseline(job.case, now, release, programs.collected.date)
    verdicts = [verdicts_by_spec[spec] for spec in programs.specs]
    return Judged(
        collected=programs.collected,
        session_verdict=judge_compiled_session(
            verdicts, asked_to_skip=skip, missing=_promised(programs)
        ),
        verdicts={verdict.spec: verdict for verdict in verdicts},
        observed=programs,
    )


def _promised(programs: Programs) -> tuple[str, ...]:
    """Return topologies that have baselines but no compiler at all, with the reason, each once."""
    framework, root = programs.specs[0].framework, programs.options.baselines
    compilers = programs.compilers.values()
    compiled_names = {compiler.topology for compiler in compilers if not compiler.missing}
    reasons = {compiler.topology: compiler.missing for compiler in compilers}
    names: dict[str, list[str]] = {}
    for topology in programs.compiling.topologies:
        reason = "" if topology.name in compiled_names else reasons.get(topology.name, "")
        if reason and baselines.has_any(root, topology, framework):
            names.setdefault(reason, []).append(topology.name)
    return tuple(f"{', '.join(topologies)}: {reason}" for reason, topologies in names.items())


def _starters(options: Options, compiling: CompileSettings) -> dict[str, Starter]:
    # The only framework of a session that compiles.
    framework = options.frameworks[0]
    starter = Starter(
        python=python_of(options, framework),
        framework=framework,
        service="compile",
        defaults=VARIABLES.get(framework, {}),
    )
    if not compiling.libtpus:
        return dict.fromkeys(compiling.labels, starter)
    starters = {}
    for label, libtpu in zip(compiling.labels, compiling.libtpus, strict=True):
        environment = {RELEASE: f"libtpu {libtpu.label}"}
        if not FRAMEWORKS[framework].is_scripted:
            with usage_error(ValueError):
                environment["TPU_LIBRARY_PATH"] = str(library_of(libtpu, compiling.cache))
        starters[label] = replace(starter, environment=environment)
    return starters


def _described(
    parallel: Parallel, specs: Sequence[CompiledSpec], compiling: CompileSettings
) -> dict[tuple[str, str], Compiler]:
    """Return every compiler for every topology that is selected.

    A named topology that no compiler supports is an error, and so is having no compiler at all. If
    only one of several releases does not know a chip yet, that is a result and not an error.
    """
    topologies = [
        topology
        for topology in compiling.topologies
        if topology.name in {spec.topology for spec in specs}
    ]
    compilers = {
        (label, compiler.topology): compiler
        for label in dict.fromkeys(spec.compiler for spec in specs)
        for compiler in parallel.describe(label, topologies)
    }
    compiled_names = {name for (_, name), compiler in compilers.items() if not compiler.missing}
    absent = [c for c in compilers.values() if c.topology not in compiled_names]
    if absent and (not compiling.families or not compiled_names):
        raise UsageError(f"--topology={absent[0].topology}: {absent[0].missing}")
    return compilers


def as_baseline(
    case: Case, now: Compiled | Failure, release: str, date: str
) -> CompiledBaseline | None:
    """Return what can be stored; None for a failure, except out of memory."""
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


def accepted(judged: Judged) -> Judged:
    """Store programs, and cases that are out of memory; an error is no baseline."""
    programs = judged.observed
    if not isinstance(programs, Programs):
        return judged
    update, date = judged.options.update_baselines, judged.collected.date
    saved: list[tuple[EnvironmentKey, CompiledBaseline]] = []
    for spec, now in programs.results.items():
        job, verdict = programs.jobs[spec], judged.verdicts[spec]
        release = programs.compilers[spec.compiler, spec.topology].release
        new = as_baseline(job.case, now, release, date)
        is_requested = update != "improved" or verdict.outcome is Outcome.IMPROVED
        if update == "new":
            # Also one that busbw ships is there already.
            is_requested = job.stored is None
        if new is not None and is_requested and not verdict.failed:
            saved.append((job.key, new))
    rows = baselines.save(judged.options.baselines, saved, only_new=update == "new")
    return replace(judged, changes=change_tables(rows))

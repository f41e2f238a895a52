"""Compile the cases of a session, and judge the compiled programs. Nothing is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw import grid
from busbw.baselines import document, files
from busbw.driver.executor import Executor
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Case, GridError, Spec
from busbw.model.launch import Failure
from busbw.model.machine import DeviceSet, EnvironmentKey
from busbw.model.words import FailureKind, Outcome
from busbw.report.session import written_baseline_tables
from busbw.session.errors import UsageError, usage_error
from busbw.session.files import shipped_folder
from busbw.session.machine import python_of
from busbw.session.options import Options
from busbw.session.progress import Display
from busbw.session.state import Collected, Judged, Observed
from busbw.storage import OutputError

from . import baselines
from .compilers import CompileSettings, download_libtpu
from .judge import CompileJudgingSettings, judge_compiled_case, judge_compiled_session
from .parallel import Job, ParallelCompiler
from .worker_values import (
    RELEASE_VARIABLE,
    CompiledBaseline,
    CompiledProgram,
    CompiledVerdict,
    Compiler,
    CompileSpec,
)

# Environment variables of workers that compile, by framework; a value that the user set wins.
COMPILER_ENVIRONMENT = {
    "jax": {
        # A compiler needs no hardware: do not search for it, here or in a cloud's metadata.
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        # Several processes may load libtpu at once, because they do not use a chip.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Compilation(Observed):
    """The cases to compile, and the results so far.

    `compilers` maps the label of a compiler and the name of a topology to the compiler. `jobs` maps
    each case to its job; a case whose compiler does not support the topology has no job. `results`
    maps each compiled case to its program, or to the failure of the compiler.
    """

    settings: CompileSettings
    specs: tuple[CompileSpec, ...]
    jobs: Mapping[CompileSpec, Job]
    compilers: Mapping[tuple[str, str], Compiler]
    results: Mapping[CompileSpec, CompiledProgram | Failure] = field(default_factory=dict)


def make_parallel_compiler(
    options: Options, settings: CompileSettings, executor: Executor, display: Display
) -> ParallelCompiler:
    """Return a ParallelCompiler that uses all processors.

    Raises UsageError if a release of libtpu is missing and cannot be downloaded.
    """
    return ParallelCompiler(
        executor=executor,
        starters=_compiler_starters(options, settings),
        worker_count=len(os.sched_getaffinity(0)),
        timeout_s=options.case_timeout,
        cache=settings.cache,
        report_progress=display.show_status,
    )


def find_compilers_and_jobs(
    collected: Collected,
    settings: CompileSettings,
    specs: tuple[CompileSpec, ...],
    parallel: ParallelCompiler,
) -> Compilation:
    """Return a Compilation with the compilers and jobs of the `specs`, and without results.

    Raises UsageError if a topology has no compiler or cannot run a case, if a baseline cannot be
    read, or if accepted programs could not be written.
    """
    compilers = _find_compilers(parallel, specs, settings)
    jobs = {}
    topologies = {topology.name: topology for topology in settings.topologies}
    for spec in specs:
        compiler = compilers[spec.compiler, spec.topology]
        if compiler.devices is None:
            continue
        with usage_error(GridError, where=f"--topology={spec.topology}: "):
            case, key = case_on(spec, compiler.devices)
        jobs[spec] = Job(
            case=case, topology=topologies[spec.topology], compiler=spec.compiler, key=key
        )
    # Compiling may take long: files are checked first, so that a damaged file is found early.
    with usage_error(document.BaselineError, OutputError, OSError):
        if collected.options.writes_baselines:
            keys_and_cases = [(job.key, job.case) for job in jobs.values()]
            files.check_writable(collected.options.baselines / baselines.FOLDER, keys_and_cases)
        jobs = {spec: _with_baseline(collected.options, job) for spec, job in jobs.items()}
    return Compilation(
        collected=collected,
        settings=settings,
        specs=specs,
        compilers=compilers,
        jobs=jobs,
    )


def case_on(spec: CompileSpec, devices: DeviceSet) -> tuple[Case, EnvironmentKey]:
    """Return the Case of `spec` on `devices`, which need not be attached, and its environment.

    Raises GridError if the devices cannot run the case, such as a mesh that does not fit their
    hosts.
    """
    target = grid.Target(device=devices.device, reason="", device_sets={spec.framework: devices})
    return grid.case_and_key(spec, target)


def _with_baseline(options: Options, job: Job) -> Job:
    """Return `job` with the stored program of its case, or else the program that busbw ships."""
    roots = (options.baselines, shipped_folder("baselines"))
    stored = (baselines.find_program(root, job.key, job.case) for root in roots)
    return replace(job, baseline=next(filter(None, stored), None))


def compile_jobs(
    compilation: Compilation, parallel: ParallelCompiler, display: Display
) -> Compilation:
    """Compile all jobs of `compilation`, and return a Compilation with the results."""
    start_s = time.monotonic()
    results = parallel.compile_jobs(list(compilation.jobs.values()))
    display.replace_progress(f"busbw: compiled in {time.monotonic() - start_s:.0f} s")
    return replace(compilation, results=dict(zip(compilation.jobs, results)))


def judge_programs(compilation: Compilation) -> Judged:
    """Return the verdicts on all cases.

    The programs of the first compiler are compared with the baselines. The programs of each further
    compiler are compared with the programs of the compiler before it. A case is skipped if its
    compiler does not support the topology.
    """
    verdicts: dict[Spec, CompiledVerdict] = {}
    options = compilation.options
    judging_settings = CompileJudgingSettings(
        accepts_changes=compilation.settings.accepts_changes,
        accepts_all=options.update_baselines == "all",
        accepts_new=options.update_baselines in ("all", "new"),
    )
    previous: dict[CompileSpec, CompiledBaseline | None] = {}
    labels = list(dict.fromkeys(label for label, _ in compilation.compilers))
    for spec in sorted(compilation.specs, key=lambda spec: labels.index(spec.compiler)):
        compiler = compilation.compilers[spec.compiler, spec.topology]
        if compiler.missing:
            verdicts[spec] = CompiledVerdict(
                spec=spec, outcome=Outcome.SKIPPED, failed=False, text=compiler.missing
            )
            continue
        job, result = compilation.jobs[spec], compilation.results[spec]
        case_key = replace(spec, compiler="")
        is_first = case_key not in previous
        baseline = job.baseline if is_first else previous[case_key]
        other_release = "" if is_first or baseline is None else baseline.release
        # Baselines are required only for the first compiler, because only its programs are compared
        # with baselines.
        case_judging_settings = replace(
            judging_settings,
            requires_baselines=options.require_baselines and is_first,
            reference_name=other_release or "the baseline",
        )
        verdicts[spec] = judge_compiled_case(
            spec, job.case, result, baseline, case_judging_settings, release=compiler.release
        )
        previous[case_key] = baseline_from(
            job.case, result, compiler.release, compilation.collected.date
        )
    return Judged(
        collected=compilation.collected,
        session_verdict=judge_compiled_session(list(verdicts.values())),
        verdicts={spec: verdicts[spec] for spec in compilation.specs},
        observations=compilation,
    )


def _compiler_starters(options: Options, settings: CompileSettings) -> dict[str, Starter]:
    """Return the starter of workers for each compiler, by the label of the compiler."""
    # A session that compiles has a single framework.
    framework = options.frameworks[0]
    starter = Starter(
        python=python_of(options, framework),
        framework=framework,
        service="compile",
        default_variables=COMPILER_ENVIRONMENT.get(framework, {}),
    )
    if not settings.libtpu_versions:
        return dict.fromkeys(settings.compiler_labels, starter)
    starters = {}
    for label, version in zip(settings.compiler_labels, settings.libtpu_versions, strict=True):
        environment = {RELEASE_VARIABLE: f"libtpu {version}"}
        if not FRAMEWORKS[framework].is_scripted:
            library = download_libtpu(version, settings.cache)
            environment["TPU_LIBRARY_PATH"] = str(library)
        starters[label] = replace(starter, environment=environment)
    return starters


def _find_compilers(
    parallel: ParallelCompiler, specs: Sequence[CompileSpec], settings: CompileSettings
) -> dict[tuple[str, str], Compiler]:
    """Return each compiler for each selected topology, by its label and the name of the topology.

    Raises UsageError if no compiler supports one of the topologies.
    """
    topologies = [
        topology
        for topology in settings.topologies
        if topology.name in {spec.topology for spec in specs}
    ]
    compilers = {
        (label, compiler.topology): compiler
        for label in dict.fromkeys(spec.compiler for spec in specs)
        for compiler in parallel.describe_compilers(label, topologies)
    }
    supported_names = {name for (_, name), compiler in compilers.items() if not compiler.missing}
    for (_, name), compiler in compilers.items():
        if name not in supported_names:
            raise UsageError(f"--topology={name}: {compiler.missing}")
    return compilers


def baseline_from(
    case: Case, result: CompiledProgram | Failure, release: str, date: str
) -> CompiledBaseline | None:
    """Return the baseline that stores a result; None if the result is a failure.

    OUT_OF_MEMORY is the only failure that can be stored. `release` is the release of the compiler,
    and `date` the day of the session.
    """
    program = result if isinstance(result, CompiledProgram) else None
    if isinstance(result, Failure) and result.kind is not FailureKind.OUT_OF_MEMORY:
        return None
    return CompiledBaseline(case=case, compiled=program, date=date, release=release)


def accept_programs(judged: Judged) -> Judged:
    """Store the programs as --update-baselines requests, and return `judged` with the changes.

    Cases that are out of memory are stored, too. Failed cases are not stored.
    """
    compilation = judged.observations
    if not isinstance(compilation, Compilation):
        return judged
    update, date = judged.options.update_baselines, judged.collected.date
    accepted: list[tuple[EnvironmentKey, CompiledBaseline]] = []
    for spec, result in compilation.results.items():
        job, verdict = compilation.jobs[spec], judged.verdicts[spec]
        release = compilation.compilers[spec.compiler, spec.topology].release
        baseline = baseline_from(job.case, result, release, date)
        is_requested = {
            "all": True,
            "improved": verdict.outcome is Outcome.IMPROVED,
            # A program that busbw ships is not new, although it is not in the user's folder.
            "new": job.baseline is None,
        }
        if baseline is not None and is_requested[update] and not verdict.failed:
            accepted.append((job.key, baseline))
    rows = baselines.save_programs(judged.options.baselines, accepted)
    return replace(judged, baseline_tables=written_baseline_tables(rows))

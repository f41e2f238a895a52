"""Compile-only checks (`--topology`) as a session mode: collect, compile, judge and show cases."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw import grid
from busbw.baselines.document import BaselineError
from busbw.driver.executor import Executor
from busbw.extensions.program.options import program_name, program_sources
from busbw.model.case import ALL_COLLECTIVES_WORD, CaseSpec, GridError, dataclass_from
from busbw.model.verdict import Verdict
from busbw.session.accept import write_requested_baselines
from busbw.session.command_line import how_to_install, shipped_folder
from busbw.session.measure import Display
from busbw.session.option import UsageError, as_usage_error
from busbw.session.options import Options
from busbw.session.record import write_history_and_outputs
from busbw.session.run import Mode
from busbw.session.state import CollectedSession, JudgedSession

from .compilers import (
    ParallelCompiler,
    compile_cache_folder,
    compiler_labels,
    prepare_compiler_worker_specs,
)
from .judge import CompileJob, CompilingSession, judge_programs
from .results import (
    as_compiled_verdict,
    compiled_case_row,
    compiled_case_tables,
    read_stored_program,
    results_json,
    store_accepted_programs,
)
from .worker import Compiler, CompileSpec

# The frameworks whose programs can be compiled for a topology; the first is the default.
_SUPPORTED_FRAMEWORKS = ("jax", "fake")


def requested_mode(options: Options) -> Mode | None:
    """Return the session mode that compiles cases and measures nothing; None without --topology.

    Raises UsageError if an option is wrong or cannot be used with --topology.
    """
    if "topology" not in options.extra:
        return None
    if "results" in options.outputs and options.outputs["results"].name.lower().endswith(".csv"):
        raise UsageError("--results: expected a JSON file with --topology: a table has times")
    if len(compiler_labels(options)) > 1 and options.update_baselines:
        raise UsageError("--update-baselines: with several --libtpu it is not clear whose")
    # Wrong programs are named before tests are collected.
    program_sources(options)
    frameworks = options.frameworks if options.names_frameworks else (_SUPPORTED_FRAMEWORKS[0],)
    if not set(frameworks) <= set(options.frameworks).intersection(_SUPPORTED_FRAMEWORKS):
        raise UsageError(f"--frameworks: expected jax with --topology; {how_to_install('jax')}")
    # Programs are compiled for all chips of a topology, which a mesh must have.
    options = replace(
        options, frameworks=frameworks, absent_frameworks=(), ranks=None, history=None
    )
    return Mode(
        fixture="busbw_compiled",
        collected_session=CollectedSession(options=options),
        select_specs=_select_specs,
        run_cases=compile_and_judge,
        write_files=lambda judged_session: write_history_and_outputs(
            write_requested_baselines(judged_session, store_accepted_programs), results_json
        ),
        tables=lambda judged_session, verbose: (
            compiled_case_tables(list(map(as_compiled_verdict, judged_session.verdicts.values()))),
            (),
        ),
        make_junit_properties=_junit_properties,
    )


def _select_specs(options: Options) -> tuple[CompileSpec, ...]:
    """Return a CompileSpec of each case for each topology and each compiler.

    The cases are the programs that --program names, or else the collectives that options select.
    """
    specs = tuple(program_spec(options.frameworks[0], name) for name in program_sources(options))
    return tuple(
        dataclass_from(CompileSpec, spec, topology=topology.name, compiler=label)
        for topology in options.extra["topology"]
        for label in compiler_labels(options)
        for spec in specs or grid.select_specs(options)
    )


def program_spec(framework: str, source: str) -> CaseSpec:
    """Return the CaseSpec of a user's program, with the name of the program as the strategy.

    `source` is the value of --program, such as ``train.py:step``.
    """
    # A program has many payloads. The value 1 is a placeholder: a document needs a payload.
    return CaseSpec(
        framework=framework,
        payload_bytes=1,
        collective=ALL_COLLECTIVES_WORD,
        program=source,
        strategy=program_name(source),
    )


def _junit_properties(verdict: Verdict, judged_session: JudgedSession | None) -> dict[str, object]:
    """Return the properties of a case for the JUnit XML file, by name.

    The properties are the values in the case's row of the table. `judged_session` is not used,
    because `verdict` has all these values.
    """
    compiled = as_compiled_verdict(verdict)
    return {
        "topology": compiled.spec.topology,
        "compiler": compiled.program.release or None,
        **compiled_case_row(compiled).values,
    }


def compile_and_judge(
    collected_session: CollectedSession, executor: Executor, display: Display
) -> JudgedSession:
    """Compile the selected cases in parallel, judge their programs, and return the judged session.

    Each processor that this process may use has a worker.

    Raises UsageError if a release of libtpu is missing and cannot be downloaded, if a topology has
    no compiler or cannot run a case, or if a baseline cannot be read.
    """
    options = collected_session.options
    cache = compile_cache_folder(options)
    parallel_compiler = ParallelCompiler(
        executor=executor,
        worker_specs=prepare_compiler_worker_specs(options, cache),
        worker_count=len(os.sched_getaffinity(0)),
        timeout_s=options.case_timeout,
        cache=cache,
    )
    specs = tuple(spec for spec in collected_session.specs if isinstance(spec, CompileSpec))
    compilers = _find_compilers(parallel_compiler, specs)
    jobs = _make_jobs(options, specs, compilers)
    for compiler in compilers.values():
        text = compiler.release or f"none ({compiler.missing})"
        display.write_line(f"busbw compiler for {compiler.topology}: {text}")
    display.show_status(f"busbw: programs to compile: {len(jobs)}")
    compilation = dataclass_from(
        CompilingSession, collected_session, specs=specs, compilers=compilers, jobs=jobs
    )
    return judge_programs(compilation, parallel_compiler.compile_jobs(jobs))


def _find_compilers(
    parallel_compiler: ParallelCompiler, specs: Sequence[CompileSpec]
) -> dict[tuple[str, str], Compiler]:
    """Ask the workers for the compilers of all cases, and return them by (label, topology name).

    If a compiler does not support the topology, the field `missing` of the Compiler contains the
    reason. Raises UsageError if no compiler supports one of the topologies.
    """
    with parallel_compiler.executor:
        compilers = {
            (label, topology): parallel_compiler.describe_compiler(label, topology)
            for label, topology in dict.fromkeys((spec.compiler, spec.topology) for spec in specs)
        }
    supported = {compiler.topology for compiler in compilers.values() if not compiler.missing}
    for compiler in compilers.values():
        if compiler.topology not in supported:
            raise UsageError(f"--topology={compiler.topology}: {compiler.missing}")
    return compilers


def _make_jobs(
    options: Options,
    specs: Sequence[CompileSpec],
    compilers: Mapping[tuple[str, str], Compiler],
) -> dict[CompileSpec, CompileJob]:
    """Return a job with the stored program for each case whose compiler supports the topology.

    `compilers` maps (compiler label, topology name) to the compiler. Raises UsageError if the
    devices of a topology cannot run a case, or if a baseline cannot be read.
    """
    jobs: dict[CompileSpec, CompileJob] = {}
    roots = (options.baselines, shipped_folder("baselines"))
    # Compiling may take long: files are checked first, so that a damaged file is reported early.
    with as_usage_error(BaselineError, OSError):
        for spec in specs:
            devices = compilers[spec.compiler, spec.topology].devices
            if devices is None:
                continue
            target = grid.MeasuredDevices(
                device=devices.device, reason="", device_sets={spec.framework: devices}
            )
            with as_usage_error(GridError, where=f"--topology={spec.topology}: "):
                case, key = grid.resolve_case_without_hosts(spec, target)
            # The program that busbw ships is compared with if the user has stored no program.
            stored = (read_stored_program(root, key, case) for root in roots)
            jobs[spec] = CompileJob(case=case, key=key, baseline=next(filter(None, stored), None))
    return jobs

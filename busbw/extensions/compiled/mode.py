"""Compile-only checks as a session mode: collect, compile, judge, write and show their cases."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from busbw import grid
from busbw.extensions.program.options import program_name
from busbw.model.case import Spec, convert_to
from busbw.model.verdict import Verdict
from busbw.model.words import plural
from busbw.model.workload import ALL_COLLECTIVES
from busbw.report.table import attributes_or_none
from busbw.session.accept import accept_baselines
from busbw.session.command_line import how_to_install
from busbw.session.errors import UsageError
from busbw.session.mode import Mode, Tables
from busbw.session.options import Options
from busbw.session.record import write_outputs
from busbw.session.run import RunningSession, run_session
from busbw.session.state import Collected, Judged

from . import compilation, report
from .compilers import COMPILING_FRAMEWORKS, CompileSettings, compile_settings
from .results import compiled_verdicts, results_json
from .worker_values import CompiledVerdict, CompileSpec


def mode_of(options: Options) -> Mode | None:
    """Return the session mode that compiles cases and measures nothing; None without --topology.

    Raises UsageError if an option is wrong or does not go with --topology.
    """
    settings = compile_settings(options)
    if settings is None:
        return None
    frameworks = options.frameworks
    if not options.names_frameworks:
        frameworks = tuple(name for name in frameworks if name == COMPILING_FRAMEWORKS[0])
    if not frameworks:
        raise UsageError(f"--topology: jax is not installed here; {how_to_install('jax')}")
    options = replace(options, frameworks=frameworks, absent_frameworks=(), history=None)
    return Mode(
        fixture="busbw_compiled",
        collected=Collected(options=options),
        add_specs=partial(_add_specs, settings),
        header=partial(_header_text, settings),
        run_cases=partial(run_session, run_cases=partial(_compile_and_judge, settings)),
        write=lambda judged: write_outputs(
            accept_baselines(judged, compilation.accept_programs), results_json
        ),
        tables=_tables_of,
        properties=_junit_properties,
    )


def _add_specs(
    settings: CompileSettings, collected: Collected
) -> tuple[Collected, tuple[Spec, ...]]:
    options = collected.options
    specs = tuple(program_spec(options.frameworks[0], name) for name in settings.programs)
    compiled = tuple(
        convert_to(CompileSpec, spec, topology=topology.name, compiler=label)
        for topology in settings.topologies
        for label in settings.compiler_labels
        for spec in specs or grid.select_specs(options)
    )
    return replace(collected, grid=tuple(dict.fromkeys((*collected.grid, *compiled)))), compiled


def program_spec(framework: str, source: str) -> Spec:
    """Return the Spec that compiles a user's program, with the program's name as its strategy.

    `source` names the program as --program does.
    """
    # A program has many payloads. The value 1 is a placeholder, because a document must have one.
    return Spec(
        framework=framework,
        payload_bytes=1,
        collective=ALL_COLLECTIVES,
        program=source,
        strategy=program_name(source),
    )


def _header_text(settings: CompileSettings, options: Options) -> str:
    programs = ", ".join(settings.programs) or plural(len(options.payloads), "payload")
    names = ", ".join(topology.name for topology in settings.topologies)
    return f"busbw: compiling for {names}, {programs}"


def _compile_and_judge(
    settings: CompileSettings, collected: Collected, session: RunningSession
) -> Judged:
    display = session.display
    specs = tuple(spec for spec in session.specs if isinstance(spec, CompileSpec))
    parallel = compilation.make_parallel_compiler(
        collected.options, settings, session.executor, display
    )
    resolved = compilation.find_compilers_and_jobs(collected, settings, specs, parallel)
    for text in report.compiler_lines(tuple(resolved.compilers.values())):
        display.write_line(text)
    return compilation.judge_programs(compilation.compile_jobs(resolved, parallel, display))


def _tables_of(judged: Judged, verbose: bool) -> Tables:
    return report.compiled_tables(compiled_verdicts(judged)), ()


def _junit_properties(verdict: Verdict, judged: Judged | None) -> dict[str, object]:
    program = verdict.program if isinstance(verdict, CompiledVerdict) else None
    return {
        "outcome": verdict.outcome.value,
        "topology": getattr(verdict.spec, "topology", None),
        "compiler": (program.release if program else "") or None,
        **attributes_or_none(verdict.spec, "framework", "collective", "dtype"),
        **attributes_or_none(verdict.case, "strategy", "payload_bytes", "ranks"),
        **attributes_or_none(program.now if program else None, "temporary_bytes", "peak_bytes"),
        "algorithm": program.now.algorithm_text if program and program.now else None,
    }

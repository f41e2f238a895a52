"""Compile-only checks as a mode of sessions: how they are collected, run, written and shown."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from busbw import grid
from busbw.extensions.program.options import name_of
from busbw.model.case import Spec, convert_to
from busbw.model.verdict import Verdict
from busbw.model.words import plural
from busbw.model.workload import ALL_COLLECTIVES
from busbw.report.table import attributes
from busbw.session.accept import accept_baselines
from busbw.session.mode import Mode, Tables, grid_options_of
from busbw.session.options import Options
from busbw.session.record import write_outputs
from busbw.session.run import RunningSession, run_session
from busbw.session.state import Collected, Judged, Observed

from . import compilation, report
from .compilers import COMPILED, CompileSettings, compile_settings
from .results import results_of, verdicts_of
from .worker_values import CompiledSpec, CompiledVerdict


def mode_of(options: Options) -> Mode | None:
    """Return the mode that compiles, with --topology. Raises UsageError."""
    compiling = compile_settings(options)
    if compiling is None:
        return None
    frameworks = options.frameworks
    if not options.names_frameworks:
        frameworks = tuple(name for name in frameworks if name == COMPILED[0])
    options = replace(options, frameworks=frameworks, absent_frameworks=(), history=None)
    return Mode(
        fixture="busbw_compiled",
        collected=Collected(options=options),
        add_specs=partial(_add_specs, compiling),
        header=partial(_header, compiling),
        run_cases=partial(run_session, run_cases=partial(_run, compiling)),
        write=lambda judged: write_outputs(
            accept_baselines(judged, compilation.accepted), results_of
        ),
        tables=_tables_of,
        properties=_properties,
    )


def _add_specs(
    compiling: CompileSettings, collected: Collected
) -> tuple[Collected, tuple[Spec, ...]]:
    request, sources = grid_options_of(collected.options), compiling.programs
    specs = tuple(program_spec(request.frameworks[0], source) for source in sources)
    compiled = tuple(
        convert_to(CompiledSpec, spec, topology=topology.name, compiler=label)
        for topology in compiling.topologies
        for label in compiling.labels
        for spec in specs or grid.select_specs(request)
    )
    return replace(collected, grid=tuple(dict.fromkeys((*collected.grid, *compiled)))), compiled


def program_spec(framework: str, source: str) -> Spec:
    """Return the Spec of a program, whose name is its strategy."""
    # There is no one payload: 1 stands for it where a document must have one.
    return Spec(
        framework=framework,
        payload_bytes=1,
        collective=ALL_COLLECTIVES,
        program=source,
        strategy=name_of(source),
    )


def _header(compiling: CompileSettings, options: Options) -> str:
    programs = ", ".join(compiling.programs) or plural(len(options.payloads), "payload")
    names = ", ".join(topology.name for topology in compiling.topologies)
    return f"busbw: compiling for {names}, {programs}"


def _run(compiling: CompileSettings, collected: Collected, session: RunningSession) -> Judged:
    display = session.display
    specs = tuple(spec for spec in session.specs if isinstance(spec, CompiledSpec))
    parallel = compilation.parallel_of(collected.options, compiling, session.executor, display)
    resolved = compilation.resolved(collected, compiling, specs, parallel)
    for text in report.compiler_lines(tuple(resolved.compilers.values())):
        display.write_line(text)
    done = compilation.compiled(resolved, parallel, display, session.keep)
    return compilation.judged(done, session.skip_option)


def _tables_of(observed: Observed | None, judged: Judged | None, verbose: bool) -> Tables:
    verdicts = verdicts_of(judged) if judged is not None else ()
    if judged is None and isinstance(observed, compilation.Programs):
        verdicts = tuple(compilation.left_out(observed).values())
    return report.compiled_tables(verdicts), ()


def _properties(verdict: Verdict, judged: Judged | None) -> dict[str, object]:
    program = verdict.program if isinstance(verdict, CompiledVerdict) else None
    return {
        "outcome": verdict.outcome.value,
        "topology": getattr(verdict.spec, "topology", None),
        "compiler": (program.release if program else "") or None,
        **attributes(verdict.spec, "framework", "collective", "dtype"),
        **attributes(verdict.case, "strategy", "payload_bytes", "ranks"),
        **attributes(program.now if program else None, *(figure.id for figure in report.FIGURES)),
        "algorithm": program.now.algorithm_text if program and program.now else None,
    }

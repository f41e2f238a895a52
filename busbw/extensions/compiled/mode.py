"""Compile-only checks as a mode of sessions: how they are collected, run, written and shown."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from busbw import grid
from busbw.extensions.program.options import name_of
from busbw.model.case import Spec, converted
from busbw.model.verdict import Verdict
from busbw.model.words import plural
from busbw.model.workload import ALL
from busbw.report.table import attributes
from busbw.session import acceptance, outputs, phases, selection
from busbw.session.mode import Mode, Tables
from busbw.session.option import Given
from busbw.session.state import Collected, Judged, Observed

from . import compilation, report
from .compilers import CompileSettings, settings_of
from .results import results_of, verdicts_of
from .worker_values import CompiledSpec, CompiledVerdict


def mode_of(given: Given) -> Mode | None:
    """Return the mode that compiles, with --topology. Raises UsageError."""
    chosen = settings_of(given)
    if chosen is None:
        return None
    settings, compiling = chosen
    return Mode(
        fixture="busbw_compiled",
        collected=Collected(settings=settings),
        with_specs=partial(_with_specs, compiling),
        header=partial(_header, compiling),
        judged=partial(phases.judged, run=partial(_run, compiling)),
        written=lambda judged: outputs.with_outputs(
            acceptance.accepted(judged, compilation.accepted), results_of
        ),
        tables=_tables_of,
        properties=_properties,
    )


def _with_specs(
    compiling: CompileSettings, collected: Collected
) -> tuple[Collected, tuple[Spec, ...]]:
    request, sources = selection.asked(collected.settings), compiling.programs
    specs = tuple(program_spec(request.frameworks[0], source) for source in sources)
    compiled = tuple(
        converted(CompiledSpec, spec, topology=topology.name, compiler=label)
        for topology in compiling.topologies
        for label in compiling.labels
        for spec in specs or grid.specs(request)
    )
    return replace(collected, grid=tuple(dict.fromkeys((*collected.grid, *compiled)))), compiled


def program_spec(framework: str, source: str) -> Spec:
    """Return the Spec of a program, whose name is its strategy."""
    # There is no one payload: 1 stands for it where a document must have one.
    return Spec(
        framework=framework,
        payload_bytes=1,
        collective=ALL,
        program=source,
        strategy=name_of(source),
    )


def _header(compiling: CompileSettings, collected: Collected) -> str:
    settings = collected.settings
    programs = ", ".join(compiling.programs) or plural(len(settings.asked.payloads), "payload")
    names = ", ".join(topology.name for topology in compiling.topologies)
    return f"busbw: compiling for {names}, {programs}"


def _run(compiling: CompileSettings, collected: Collected, running: phases.Running) -> Judged:
    display = running.within.display
    specs = tuple(spec for spec in running.specs if isinstance(spec, CompiledSpec))
    parallel = compilation.parallel_of(collected.settings, compiling, running.executor, display)
    resolved = compilation.resolved(collected, compiling, specs, parallel)
    for text in report.compiler_lines(tuple(resolved.compilers.values())):
        display.line(text)
    done = compilation.compiled(resolved, parallel, display, running.within.keep)
    return compilation.judged(done, running.within.skip)


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

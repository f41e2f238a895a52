"""Compile-only checks as a session mode: collect, compile, judge, write and show their cases."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from busbw import grid
from busbw.extensions.program.options import program_name, program_sources
from busbw.model.case import Spec, convert_to
from busbw.model.verdict import Verdict
from busbw.model.words import plural
from busbw.model.workload import ALL_COLLECTIVES
from busbw.report.table import attribute_values
from busbw.session.accept import accept_baselines
from busbw.session.command_line import how_to_install
from busbw.session.errors import UsageError
from busbw.session.files import is_named_csv
from busbw.session.mode import Mode, Tables
from busbw.session.options import Options
from busbw.session.record import write_outputs
from busbw.session.run import run_session
from busbw.session.state import Collected, Judged

from .compilation import accept_programs, compile_and_judge
from .compilers import compile_cache_folder, compiler_labels
from .results import compiled_tables, compiled_verdicts, results_json
from .worker_values import CompiledVerdict, CompileSpec

# The frameworks whose programs can be compiled for a topology; the first is the default.
_COMPILING_FRAMEWORKS = ("jax", "fake")


def mode_of(options: Options) -> Mode | None:
    """Return the session mode that compiles cases and measures nothing; None without --topology.

    Raises UsageError if an option is wrong or does not go with --topology.
    """
    if "topology" not in options.extra:
        return None
    _check_options(options)
    frameworks = options.frameworks
    if not options.names_frameworks:
        frameworks = tuple(name for name in frameworks if name == _COMPILING_FRAMEWORKS[0])
    if not frameworks:
        raise UsageError(f"--topology: jax is not installed here; {how_to_install('jax')}")
    options = replace(options, frameworks=frameworks, absent_frameworks=(), history=None)
    return Mode(
        fixture="busbw_compiled",
        collected=Collected(options=options),
        add_specs=_add_specs,
        header=_header_text,
        run_cases=partial(run_session, run_cases=compile_and_judge),
        write=lambda judged: write_outputs(accept_baselines(judged, accept_programs), results_json),
        tables=_tables_of,
        properties=_junit_properties,
    )


def _check_options(options: Options) -> None:
    """Raise UsageError if an option does not go with --topology."""
    if options.names_frameworks and not set(options.frameworks) <= set(_COMPILING_FRAMEWORKS):
        names = ",".join(options.frameworks)
        raise UsageError(f"--frameworks: expected jax with --topology, got {names!r}")
    if "results" in options.outputs and is_named_csv(options.outputs["results"].name):
        raise UsageError("--results: expected a JSON file with --topology: a table has times")
    if len(compiler_labels(options)) > 1 and options.update_baselines:
        raise UsageError("--update-baselines: with several --libtpu it is not clear whose")
    compile_cache_folder(options)
    program_sources(options)


def _add_specs(collected: Collected) -> tuple[Collected, tuple[Spec, ...]]:
    options = collected.options
    specs = tuple(program_spec(options.frameworks[0], name) for name in program_sources(options))
    compiled = tuple(
        convert_to(CompileSpec, spec, topology=topology.name, compiler=label)
        for topology in options.extra["topology"]
        for label in compiler_labels(options)
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


def _header_text(options: Options) -> str:
    programs = ", ".join(program_sources(options)) or plural(len(options.payloads), "payload")
    names = ", ".join(topology.name for topology in options.extra["topology"])
    return f"busbw: compiling for {names}, {programs}"


def _tables_of(judged: Judged, verbose: bool) -> Tables:
    return compiled_tables(compiled_verdicts(judged)), ()


def _junit_properties(verdict: Verdict, judged: Judged | None) -> dict[str, object]:
    program = verdict.program if isinstance(verdict, CompiledVerdict) else None
    return {
        "outcome": verdict.outcome.value,
        "topology": getattr(verdict.spec, "topology", None),
        "compiler": (program.release if program else "") or None,
        **attribute_values(verdict.spec, "framework", "collective", "dtype"),
        **attribute_values(verdict.case, "strategy", "payload_bytes", "ranks"),
        **attribute_values(program.now if program else None, "temporary_bytes", "peak_bytes"),
        "algorithm": program.now.algorithm_text if program and program.now else None,
    }

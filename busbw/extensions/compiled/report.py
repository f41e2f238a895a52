"""Compiled cases as tables: a row for each case, and below it what differs.

Takes what the judge decided, decides nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from busbw.collectives import COLLECTIVES
from busbw.extensions.program.worker_values import Use, Uses
from busbw.model.words import bytes_text, payload_text, plural
from busbw.report.figures import Figure
from busbw.report.table import Column, Row, Table, TextLine, attributes, rows_of
from busbw.report.verdicts import BOLD, QUIET, markup_of

from .worker_values import CompiledVerdict, Compiler


def _program(name: str) -> Callable[[Any], Any]:
    return lambda verdict: getattr(verdict.program.now, name, None)


_BYTES: dict[str, Any] = {"text": bytes_text, "width": 11}
FIGURES = (
    Figure("temporary_bytes", "temporary", **_BYTES, compute=_program("temporary_bytes")),
    Figure("peak_bytes", "peak", **_BYTES, compute=_program("peak_bytes")),
)

_COLUMNS = (
    Column("payload_bytes", "payload", text=payload_text, width=8),
    *FIGURES,
    Column("outcome", "outcome", width=14, left_aligned=True, gap=2),
    Column("algorithm_text", "algorithm", left_aligned=True),
)


def compiled_tables(verdicts: Sequence[CompiledVerdict]) -> list[Table]:
    """Return a table for each topology and release, and one for the collectives of a program."""
    tables = []
    for name, group in itertools.groupby(verdicts, key=_compiled_group):
        alike = list(group)
        tables.append(
            Table(
                title=TextLine(name, BOLD),
                columns=_COLUMNS[0 if alike[0].spec.is_sized else 1 :],
                rows=tuple(map(_compiled_row, alike)),
            )
        )
        programs = [verdict.program.now for verdict in alike if verdict.program.now]
        tables += [collectives_table(program.uses) for program in programs if program.uses]
    return tables


def _compiled_group(verdict: CompiledVerdict) -> str:
    by = verdict.program.release or verdict.spec.compiler
    by = f" by {by}" if by else ""
    if verdict.case is None:
        return f"{verdict.spec.topology}{by}"
    case = verdict.case
    return f"{verdict.spec.topology}: {case.group_name}, {case.ranks} ranks{by}"


def _compiled_row(verdict: CompiledVerdict) -> Row:
    program = verdict.program
    notes = tuple(TextLine(difference.text) for difference in program.differences)
    if not notes and verdict.outcome not in QUIET:
        notes = (TextLine(verdict.text),)
    cells = {
        "payload_bytes": verdict.spec.payload_bytes,
        **{figure.id: figure.compute(verdict) for figure in FIGURES},
        **attributes(program.now, "algorithm_text"),
        "outcome": verdict.outcome.value,
    }
    return Row(cells, markup=markup_of(verdict), notes=notes)


def compiler_lines(compilers: Sequence[Compiler]) -> list[str]:
    """Return which release compiles for which topologies, and for which there is none."""
    topologies: dict[str, dict[str, None]] = {}
    for compiler in compilers:
        if not compiler.missing:
            topologies.setdefault(compiler.release, {})[compiler.topology] = None
    texts = [f"{release} for {', '.join(names)}" for release, names in sorted(topologies.items())]
    texts += [f"none for {c.topology}: {c.missing}" for c in compilers if c.missing]
    return [f"busbw compiler: {text}" for text in texts]


_OF_PROGRAM = (
    Column("kind", "collective", left_aligned=True, fits=True),
    Column("dtype", "dtype", left_aligned=True, fits=True, gap=2),
    Column("payload_bytes", "payload", text=payload_text, fits=True),
    Column("where", "over", left_aligned=True, fits=True, gap=2),
    Column("times", "runs", left_aligned=True, fits=True, gap=2),
    Column("traffic_bytes", "traffic", text=bytes_text, fits=True),
    Column("started", "start to end", left_aligned=True, fits=True, gap=2),
    Column("source", "source", left_aligned=True, gap=2),
)


def collectives_table(uses: Uses) -> Table:
    """Return a row for each collective."""
    rows = rows_of(
        {
            "kind": use.kind.replace("_", "-"),
            "dtype": use.dtype,
            "payload_bytes": use.payload_bytes,
            "where": _over(use),
            "times": use.times_text(use.times),
            "traffic_bytes": traffic_bytes(use),
            "started": _started(use),
            "source": use.source or None,
        }
        for use in uses
    )
    return Table(columns=_OF_PROGRAM, rows=rows, notes=_notes(uses), indent=4)


def traffic_bytes(use: Use) -> int | None:
    """Return what a ring sends over each rank's link in a step: payload x busbw factor x runs.

    Return None for a collective without a factor, with unknown groups, or of which nobody knows how
    often it runs.
    """
    if use.ranks == 1:
        return 0
    collective = COLLECTIVES.get(use.kind)
    if collective is None or use.per_iteration or not use.ranks:
        return None
    return round(use.payload_bytes * collective.bus_factor(use.ranks) * use.times)


def _over(use: Use) -> str:
    if use.axes:
        return f"{use.axes} ({use.ranks})"
    return f"groups of {use.ranks}" if use.ranks else "unknown groups"


def _started(use: Use) -> str:
    if not use.asynchronous:
        return "synchronous"
    return f"asynchronous, {plural(use.hidden_by, 'operation')} between"


def _notes(uses: Uses) -> tuple[str, ...]:
    traffic = [use for use in map(traffic_bytes, uses) if use is not None]
    counted = [use for use in uses if not use.per_iteration and use.ranks != 1]
    moved = sum(use.payload_bytes * use.times for use in counted)
    most = "at most " if any(use.at_most for use in counted) else ""
    step = (
        f"a step: {most}{bytes_text(moved)} of payloads, {bytes_text(sum(traffic))} over each "
        "rank's link in rings"
    )
    alone = sum(use.ranks == 1 for use in uses)
    return step, *([f"groups of one rank move nothing: {plural(alone, 'row')}"] if alone else [])

"""Tables of compiled cases: a row for each case, with its differences below it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from busbw.extensions.program.table import collectives_table
from busbw.model.words import bytes_text, payload_text
from busbw.report.table import Column, Row, Table, TextLine, attributes_or_none
from busbw.report.verdicts import BOLD, QUIET_OUTCOMES, verdict_markup

from .worker_values import CompiledVerdict, Compiler

_COLUMNS = (
    Column("payload_bytes", "payload", text=payload_text, width=8),
    Column("temporary_bytes", "temporary", text=bytes_text, width=11),
    Column("peak_bytes", "peak", text=bytes_text, width=11),
    Column("outcome", "outcome", width=14, left_aligned=True, gap=2),
    Column("algorithm_text", "algorithm", left_aligned=True),
)


def compiled_tables(verdicts: Sequence[CompiledVerdict]) -> list[Table]:
    """Return a table for each topology and release, with the collectives of programs below it."""
    tables = []
    for name, group in itertools.groupby(verdicts, key=_table_title):
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


def _table_title(verdict: CompiledVerdict) -> str:
    by = verdict.program.release or verdict.spec.compiler
    by = f" by {by}" if by else ""
    if verdict.case is None:
        return f"{verdict.spec.topology}{by}"
    case = verdict.case
    return f"{verdict.spec.topology}: {case.family_name}, {case.ranks} ranks{by}"


def _compiled_row(verdict: CompiledVerdict) -> Row:
    program = verdict.program
    notes = tuple(TextLine(difference.text) for difference in program.differences)
    if not notes and verdict.outcome not in QUIET_OUTCOMES:
        notes = (TextLine(verdict.text),)
    cells = {
        "payload_bytes": verdict.spec.payload_bytes,
        **attributes_or_none(program.now, "temporary_bytes", "peak_bytes", "algorithm_text"),
        "outcome": verdict.outcome.value,
    }
    return Row(cells, markup=verdict_markup(verdict), notes=notes)


def compiler_lines(compilers: Sequence[Compiler]) -> list[str]:
    """Return lines that say which release compiles for each topology, or why no release does."""
    topologies: dict[str, dict[str, None]] = {}
    for compiler in compilers:
        if not compiler.missing:
            topologies.setdefault(compiler.release, {})[compiler.topology] = None
    texts = [f"{release} for {', '.join(names)}" for release, names in sorted(topologies.items())]
    texts += [f"none for {c.topology}: {c.missing}" for c in compilers if c.missing]
    return [f"busbw compiler: {text}" for text in texts]

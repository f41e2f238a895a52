"""Show the results of a session that compiled as tables, write them as JSON, and read them back."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from busbw import wire
from busbw.extensions.program.report import collectives_table
from busbw.model.case import Case, CaseSpec, convert_to
from busbw.model.field_types import parse_moment
from busbw.model.launch import Failure
from busbw.model.words import Outcome, bytes_text, payload_text
from busbw.report.reading import SessionDescription, SessionRecord, check_collective
from busbw.report.results import SessionDocument, abbreviate_homes
from busbw.report.table import Column, Row, Table, TextLine, attributes_or_none
from busbw.report.verdicts import BOLD, QUIET_OUTCOMES, verdict_markup
from busbw.session.record import document_head
from busbw.session.state import JudgedSession

from .compilers import Compilation
from .worker_values import CompiledComparison, CompiledVerdict, Compiler, CompileSpec

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
    case, release = verdict.case, verdict.program.release or verdict.spec.compiler
    family = f": {case.family_name}, {case.ranks} ranks" if case is not None else ""
    return f"{verdict.spec.topology}{family}" + (f" by {release}" if release else "")


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


DOCUMENT = "busbw compiled results"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledCase:
    """A case in the document: its verdict, and the `id` of its test."""

    id: str
    topology: str
    compiler: str
    spec: CaseSpec
    outcome: Outcome
    failed: bool
    text: str
    case: Case | None
    failure: Failure | None
    expected: bool
    notes: tuple[str, ...]
    program: CompiledComparison


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledResults(SessionDocument):
    """The document that `--results` writes with `--topology`. All sizes are in bytes."""

    document: str = DOCUMENT
    compilers: tuple[Compiler, ...]
    cases: tuple[CompiledCase, ...]


def results_json(judged_session: JudgedSession) -> str:
    """Return the session as a JSON document, in which ``~`` replaces home directories."""
    programs = judged_session.observations
    document = wire.to_json(
        CompiledResults(
            **document_head(judged_session),
            compilers=tuple(programs.compilers.values())
            if isinstance(programs, Compilation)
            else (),
            cases=tuple(map(compiled_case_of, compiled_verdicts(judged_session))),
        )
    )
    return json.dumps(abbreviate_homes(document, os.path.expanduser("~")), indent=1) + "\n"


def compiled_verdicts(judged_session: JudgedSession) -> tuple[CompiledVerdict, ...]:
    """Return the verdicts on all cases as CompiledVerdicts, even if the session ended early."""
    return tuple(
        verdict if isinstance(verdict, CompiledVerdict) else convert_to(CompiledVerdict, verdict)
        for verdict in judged_session.verdicts.values()
    )


def compiled_case_of(verdict: CompiledVerdict) -> CompiledCase:
    """Return the CompiledCase that stands for a verdict in the results document."""
    return convert_to(
        CompiledCase,
        verdict,
        id=verdict.spec.id,
        spec=convert_to(CaseSpec, verdict.spec),
        topology=verdict.spec.topology,
        compiler=verdict.spec.compiler,
    )


@dataclass(frozen=True, kw_only=True)
class CompiledSessionRecord(SessionRecord):
    """A session that compiled and measured nothing, as it was read from a document."""

    host: str
    compilers: tuple[Compiler, ...]
    verdicts: tuple[CompiledVerdict, ...]

    def describe_specifics(self) -> SessionDescription:
        topologies = dict.fromkeys(verdict.spec.topology for verdict in self.verdicts)
        releases = dict.fromkeys(compiler.release for compiler in self.compilers)
        return SessionDescription(
            title="Collectives as they are compiled",
            facts={
                "topologies": ", ".join(topologies),
                "compilers": ", ".join(filter(None, releases)),
                "began": f"{self.began:%Y-%m-%d %H:%M} UTC",
                "host": self.host,
                "file": PurePath(self.name).name,
            },
            tables=compiled_tables(self.verdicts),
        )


def session_from(document: object, name: str) -> CompiledSessionRecord:
    """Return the session in a JSON document; `name` is the path of the file.

    Raises WireError if the document does not hold valid results of this kind.
    """
    wire.check_document(document, DOCUMENT, "record it again with --results")
    results = wire.from_json(CompiledResults, document, "document")
    return convert_to(
        CompiledSessionRecord,
        results,
        name=name,
        began=parse_moment(results.began),
        session_verdict=results.session,
        verdicts=tuple(
            _verdict_from(compiled_case, f"cases[{index}]")
            for index, compiled_case in enumerate(results.cases)
        ),
    )


def _verdict_from(compiled_case: CompiledCase, location: str) -> CompiledVerdict:
    """Return the verdict in a case of a document.

    Raises WireError, with the `location` in the document, if the case is not valid.
    """
    spec = convert_to(
        CompileSpec,
        compiled_case.spec,
        topology=compiled_case.topology,
        compiler=compiled_case.compiler,
    )
    verdict = convert_to(CompiledVerdict, compiled_case, spec=spec)
    baseline = compiled_case.program.baseline
    check_collective(compiled_case.case, f"{location}.case")
    check_collective(baseline.case if baseline else None, f"{location}.program.baseline.case")
    return verdict

"""A session that compiled, as one JSON document, and read back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from busbw import wire
from busbw.model.case import Case, Spec, convert_to
from busbw.model.field_types import NotNegative, parse_moment
from busbw.model.launch import Failure
from busbw.model.words import Outcome
from busbw.report.reading import Outline, SessionRecord, check_case
from busbw.report.results import SessionDocument, without_homes
from busbw.session.record import document_head
from busbw.session.state import Judged

from .compilation import Programs
from .report import FIGURES, compiled_tables
from .worker_values import CompiledSpec, CompiledVerdict, Compiler, Program

DOCUMENT = "busbw compiled results"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledCase:
    """One case: its `id`, the verdict, and the `figures` of the tables."""

    id: str
    topology: str
    compiler: str
    spec: Spec
    outcome: Outcome
    failed: bool
    text: str
    case: Case | None
    failure: Failure | None
    expected: bool
    notes: tuple[str, ...]
    program: Program
    figures: Mapping[str, NotNegative]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledResults(SessionDocument):
    """What `--results` writes with `--topology`: bytes, by case."""

    document: str = DOCUMENT
    compilers: tuple[Compiler, ...]
    cases: tuple[CompiledCase, ...]


def results_of(judged: Judged) -> str:
    """Return the session as a JSON document, without the names of homes."""
    programs = judged.observed
    document = wire.to_json(
        CompiledResults(
            **document_head(judged),
            compilers=tuple(programs.compilers.values()) if isinstance(programs, Programs) else (),
            cases=tuple(map(row_of, verdicts_of(judged))),
        )
    )
    return json.dumps(without_homes(document, os.path.expanduser("~")), indent=1) + "\n"


def verdicts_of(judged: Judged) -> tuple[CompiledVerdict, ...]:
    """Return the verdicts of all cases; those of a session that was given up, too."""
    return tuple(
        verdict if isinstance(verdict, CompiledVerdict) else convert_to(CompiledVerdict, verdict)
        for verdict in judged.verdicts.values()
    )


def row_of(verdict: CompiledVerdict) -> CompiledCase:
    """Return what the document has of a case."""
    figures = {figure.id: figure.compute(verdict) for figure in FIGURES}
    return convert_to(
        CompiledCase,
        verdict,
        id=verdict.spec.id,
        spec=convert_to(Spec, verdict.spec),
        topology=verdict.spec.topology,
        compiler=verdict.spec.compiler,
        figures={name: value for name, value in figures.items() if value is not None},
    )


@dataclass(frozen=True, kw_only=True)
class CompiledSession(SessionRecord):
    """A session that compiled and measured nothing."""

    host: str
    compilers: tuple[Compiler, ...]
    verdicts: tuple[CompiledVerdict, ...]

    def description(self) -> Outline:
        topologies = dict.fromkeys(verdict.spec.topology for verdict in self.verdicts)
        releases = dict.fromkeys(compiler.release for compiler in self.compilers)
        facts = {
            "topologies": ", ".join(topologies),
            "compilers": ", ".join(filter(None, releases)),
            "began": f"{self.began:%Y-%m-%d %H:%M} UTC",
            "host": self.host,
            "file": PurePath(self.name).name,
        }
        return Outline(
            title="Collectives as they are compiled",
            facts=facts,
            tables=compiled_tables(self.verdicts),
        )


def session_from(document: object, name: str) -> CompiledSession:
    """Return the session in a document. Raises WireError."""
    wire.check_document(document, DOCUMENT, "record it again with --results")
    results = wire.from_json(CompiledResults, document, "document")
    return convert_to(
        CompiledSession,
        results,
        name=name,
        began=parse_moment(results.began),
        answer=results.session,
        verdicts=tuple(_verdict(row, f"cases[{index}]") for index, row in enumerate(results.cases)),
    )


def _verdict(row: CompiledCase, place: str) -> CompiledVerdict:
    spec = convert_to(CompiledSpec, row.spec, topology=row.topology, compiler=row.compiler)
    verdict = convert_to(CompiledVerdict, row, spec=spec)
    baseline = row.program.baseline
    check_case(row.case, f"{place}.case")
    check_case(baseline.case if baseline else None, f"{place}.program.baseline.case")
    return verdict

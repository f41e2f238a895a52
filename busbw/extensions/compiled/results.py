"""Show, write and read what a session compiled: tables, JSON results, and baselines of programs.

Baselines of programs are in a folder below the folder of baselines with times. The files have the
layout of baseline files with times: a line for each payload. They list no sessions, because a
compiler makes the same program every time.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from busbw import storage, wire
from busbw.baselines import store
from busbw.baselines.document import StoredFile, StoredLine, read_stored_file, stored_text
from busbw.extensions.program.report import collectives_table
from busbw.model.case import Case, CaseSpec, convert_to
from busbw.model.field_types import Date, parse_moment
from busbw.model.launch import Failure
from busbw.model.machine import EnvironmentKey
from busbw.model.words import Outcome, bytes_text, payload_text
from busbw.report.conclusion import BOLD, QUIET_OUTCOMES, verdict_markup
from busbw.report.reading import SessionDescription, SessionRecord, check_collective
from busbw.report.results import SessionDocument, abbreviate_homes
from busbw.report.session import ChangeRow
from busbw.report.table import Column, Row, Table, TextLine, attributes_or_none
from busbw.session.record import document_head
from busbw.session.state import JudgedSession

from .compilers import Compilation
from .worker import (
    CompiledBaseline,
    CompiledComparison,
    CompiledProgram,
    CompiledVerdict,
    Compiler,
    CompileSpec,
)

FOLDER = "compiled"

_DOCUMENT = "busbw compiled baselines"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramLine(StoredLine):
    """The program that the compiler `release` made for a payload on `date`.

    `compiled` is None if the program did not fit into the memory of the chip.
    """

    release: str
    date: Date
    compiled: CompiledProgram | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramFile(StoredFile):
    """A file of stored programs, with a line for each payload."""

    document: str = _DOCUMENT
    entries: tuple[ProgramLine, ...]


# The stored programs of a file by `Case.line_key`, which names a case within the file.
StoredPrograms = Mapping[tuple[object, ...], CompiledBaseline]


def read_programs(path: Path) -> tuple[ProgramFile, StoredPrograms]:
    """Return the file at `path`, and its programs.

    Raises BaselineError if the file cannot be read or is not a file of programs.
    """
    stored, cases = read_stored_file(path, ProgramFile, _DOCUMENT)
    return stored, {
        case.line_key: convert_to(CompiledBaseline, line, case=case)
        for line, case in zip(stored.entries, cases)
    }


def file_text(key: EnvironmentKey, programs: StoredPrograms) -> str:
    """Return the text of a file of `programs`, in the order of their cases.

    The order is fixed so that a review shows only the lines that changed. `key` is the environment
    of the file.
    """
    baselines = [programs[name] for name in sorted(programs)]
    entries = (
        convert_to(
            ProgramLine,
            baseline,
            baseline.case,
            payload=payload_text(baseline.case.payload_bytes),
        )
        for baseline in baselines
    )
    first = baselines[0].case
    return stored_text(convert_to(ProgramFile, first, environment=key, entries=tuple(entries)))


def find_program(root: Path, key: EnvironmentKey, case: Case) -> CompiledBaseline | None:
    """Return the program of a case that is stored below `root`; None if there is no such program.

    `key` is the environment of the case. Raises BaselineError if the file cannot be read or is
    damaged.
    """
    path = store.baseline_path(root / FOLDER, key, case)
    return _read_stored(path, key, case).get(case.line_key)


def _read_stored(path: Path, key: EnvironmentKey, case: Case) -> StoredPrograms:
    """Return the programs of the file at `path`; empty if there is no such file.

    Raises BaselineError if the file is damaged or does not belong to the case and its environment.
    """
    if not store.path_exists(path):
        return {}
    stored, programs = read_programs(path)
    store.check_matches_path(path, stored, key, case)
    return programs


def save_programs(
    root: Path, accepted_programs: Sequence[tuple[EnvironmentKey, CompiledBaseline]]
) -> list[ChangeRow]:
    """Write the accepted programs below the folder `root`, and return the changes.

    An unchanged program is not written again. Files are read again under a lock, so that programs
    of other cases are kept. Raises BaselineError if a file cannot be read, and OSError if a file
    cannot be written.
    """
    changes: list[ChangeRow] = []
    changed: dict[Path, tuple[EnvironmentKey, StoredPrograms]] = {}
    with store.lock_for_writing(root):
        for key, new in accepted_programs:
            path = store.baseline_path(root / FOLDER, key, new.case)
            programs = changed[path][1] if path in changed else _read_stored(path, key, new.case)
            before = programs.get(new.case.line_key)
            if before is not None and replace(before, date=new.date) == new:
                continue
            changed[path] = key, {**programs, new.case.line_key: new}
            changes.append((path, new.case, before.text if before else "none", new.text, ""))
        if changed:
            storage.remove_half_written_files(root)
        for path, (key, programs) in changed.items():
            storage.write(path, file_text(key, programs))
    return changes


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

    def describe_session(self) -> SessionDescription:
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
    verdict = convert_to(
        CompiledVerdict,
        compiled_case,
        spec=convert_to(
            CompileSpec,
            compiled_case.spec,
            topology=compiled_case.topology,
            compiler=compiled_case.compiler,
        ),
    )
    baseline = compiled_case.program.baseline
    check_collective(compiled_case.case, f"{location}.case")
    check_collective(baseline.case if baseline else None, f"{location}.program.baseline.case")
    return verdict

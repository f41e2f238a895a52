"""Show, write and read compiled programs: tables, JSON results, and baselines of programs.

Baselines of programs are in the folder `compiled`, below the folder of baselines with times. Like a
file with times, a file with programs has a line for each payload. Unlike a file with times, it
lists no sessions, because a compiler makes the same program every time.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import storage, wire
from busbw.baselines import store
from busbw.baselines.document import StoredFile, StoredLine, read_stored_file, stored_file_text
from busbw.extensions.program.report import collectives_table
from busbw.model.case import Case, CaseSpec, dataclass_from
from busbw.model.field_types import Date
from busbw.model.launch import Failure
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, bytes_text, payload_text
from busbw.report.conclusion import BOLD, OUTCOMES_WITHOUT_REASON, verdict_markup
from busbw.report.results import (
    SessionDescription,
    SessionDocument,
    shorten_homes_in_document,
)
from busbw.report.session import ChangeRow, written_baseline_tables
from busbw.report.table import Column, Row, Table, TextLine, attributes_by_name
from busbw.session.record import common_result_fields
from busbw.session.state import JudgedSession

from .judge import CompilingSession, baseline_of_verdict
from .worker import (
    CompiledBaseline,
    CompiledComparison,
    CompiledProgram,
    CompiledVerdict,
    Compiler,
    CompileSpec,
)

BASELINE_FOLDER = "compiled"

_BASELINE_DOCUMENT = "busbw compiled baselines"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledBaselineLine(StoredLine):
    """A line in a file of stored programs: the program for a single payload.

    Attributes:
        release: The release of the compiler that made the program, such as ``libtpu 0.0.42.1``.
        date: The day on which the program was compiled.
        compiled: The program; None if the program did not fit into the memory of the chip.

    """

    release: str
    date: Date
    compiled: CompiledProgram | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledBaselineFile(StoredFile):
    """The contents of a file of stored programs: those of a strategy on a topology.

    Attributes:
        document: The name of this kind of file.
        entries: The lines of the file, each with the program for a payload.

    """

    document: str = _BASELINE_DOCUMENT
    entries: tuple[CompiledBaselineLine, ...]


# The stored programs of a file by `Case.line_key`, which names a case within the file.
StoredPrograms = Mapping[tuple[object, ...], CompiledBaseline]


def read_stored_programs(path: Path, key: EnvironmentKey, case: Case) -> StoredPrograms:
    """Return the stored programs in the file at `path`, by the `line_key` of their cases.

    The result is empty if the file does not exist. Raises BaselineError if the file cannot be read
    or is damaged, or if it is not for the framework, collective and strategy of `case` and for the
    environment key `key`.
    """
    if not store.path_exists(path):
        return {}
    stored, cases = read_stored_file(path, CompiledBaselineFile, _BASELINE_DOCUMENT)
    store.check_matches_path(path, stored, key, case)
    return {
        case.line_key: dataclass_from(CompiledBaseline, line, case=case)
        for line, case in zip(stored.entries, cases)
    }


def baseline_file_text(key: EnvironmentKey, programs: StoredPrograms) -> str:
    """Return the text of the file that stores `programs`.

    `programs` maps the `line_key` of a case to its program. The lines are sorted by this key, so
    that a review shows only the lines that changed. `key` is the environment key under which all
    programs are stored.
    """
    baselines = [programs[name] for name in sorted(programs)]
    entries = tuple(
        dataclass_from(
            CompiledBaselineLine,
            baseline,
            baseline.case,
            payload=payload_text(baseline.case.payload_bytes),
        )
        for baseline in baselines
    )
    return stored_file_text(
        dataclass_from(CompiledBaselineFile, baselines[0].case, environment=key, entries=entries)
    )


def read_stored_program(root: Path, key: EnvironmentKey, case: Case) -> CompiledBaseline | None:
    """Read the stored program of a case; return None if no program of the case is stored.

    `root` is the folder of baselines, and `key` is the environment key of the case. Raises
    BaselineError if the file with the program cannot be read or is damaged.
    """
    path = store.baseline_path(root / BASELINE_FOLDER, key, case)
    return read_stored_programs(path, key, case).get(case.line_key)


def save_programs(
    root: Path, accepted_programs: Sequence[tuple[EnvironmentKey, CompiledBaseline]]
) -> list[ChangeRow]:
    """Write the accepted programs into the baselines, and return a row for each changed program.

    A program that differs from the stored program only in its date is not written again. Programs
    of other cases in the same files are kept. A lock on `root` keeps other processes from writing
    at the same time. Raises BaselineError if a file cannot be read, and OSError if a file cannot be
    written.

    Args:
        root: The folder of baselines.
        accepted_programs: The programs to store, each with the environment key of its case.

    """
    changes: list[ChangeRow] = []
    changed: dict[Path, tuple[EnvironmentKey, StoredPrograms]] = {}
    with store.lock_for_writing(root):
        for key, new in accepted_programs:
            path = store.baseline_path(root / BASELINE_FOLDER, key, new.case)
            programs = (
                changed[path][1] if path in changed else read_stored_programs(path, key, new.case)
            )
            before = programs.get(new.case.line_key)
            if before is not None and replace(before, date=new.date) == new:
                continue
            changed[path] = key, {**programs, new.case.line_key: new}
            changes.append(
                (
                    path,
                    new.case,
                    before.algorithm_text if before else "none",
                    new.algorithm_text,
                    "",
                )
            )
        storage.remove_half_written_files(root)
        for path, (key, programs) in changed.items():
            storage.write(path, baseline_file_text(key, programs))
    return changes


def store_accepted_programs(judged_session: JudgedSession) -> JudgedSession:
    """Store the programs that --update-baselines accepts, and return the session.

    The returned session also has the tables of the changed baselines. That a case ran out of memory
    is stored, too. Failed cases are not stored.
    """
    compilation = judged_session.observations
    assert isinstance(compilation, CompilingSession)
    accepted: list[tuple[EnvironmentKey, CompiledBaseline]] = []
    for verdict in map(as_compiled_verdict, judged_session.verdicts.values()):
        baseline = baseline_of_verdict(verdict, compilation.date)
        is_requested = {
            "all": True,
            "improved": verdict.outcome is Outcome.IMPROVED,
            # A program that busbw ships is not new, although it is not in the user's folder.
            "new": verdict.program.baseline is None,
        }
        if baseline and not verdict.failed and is_requested[compilation.options.update_baselines]:
            accepted.append((compilation.jobs[verdict.spec].key, baseline))
    changes = save_programs(compilation.options.baselines, accepted)
    return replace(judged_session, baseline_tables=written_baseline_tables(changes))


_COLUMNS = (
    Column("payload_bytes", "payload", text=payload_text, width=8),
    Column("temporary_bytes", "temporary", text=bytes_text, width=11),
    Column("peak_bytes", "peak", text=bytes_text, width=11),
    Column("outcome", "outcome", width=14, left_aligned=True, gap=2),
    Column("algorithm_text", "algorithm", left_aligned=True),
)


def compiled_case_tables(verdicts: Sequence[CompiledVerdict]) -> list[Table]:
    """Return the tables of compiled cases: a table for each topology, family and release.

    After the table with a user's program, a further table lists the program's collectives.
    """
    tables = []
    for name, group in itertools.groupby(verdicts, key=_table_title):
        alike = list(group)
        tables.append(
            Table(
                title=TextLine(name, BOLD),
                columns=_COLUMNS[0 if alike[0].spec.is_single_collective else 1 :],
                rows=tuple(map(compiled_case_row, alike)),
            )
        )
        all_uses = (verdict.program.now.uses for verdict in alike if verdict.program.now)
        tables += map(collectives_table, filter(None, all_uses))
    return tables


def _table_title(verdict: CompiledVerdict) -> str:
    """Return the title of a case's table: the topology, the family and the compiler's release."""
    case = verdict.case
    release = verdict.program.release or verdict.spec.compiler
    family = f": {case.family_name}, {case.ranks} ranks" if case is not None else ""
    return f"{verdict.spec.topology}{family} by {release}"


def compiled_case_row(verdict: CompiledVerdict) -> Row:
    """Return the table row of a case, with its differences or else the reason for its outcome."""
    program = verdict.program
    notes = tuple(TextLine(difference.text) for difference in program.differences)
    if not notes and verdict.outcome not in OUTCOMES_WITHOUT_REASON:
        notes = (TextLine(verdict.text),)
    return Row(
        {
            "payload_bytes": verdict.spec.payload_bytes,
            **attributes_by_name(program.now, "temporary_bytes", "peak_bytes", "algorithm_text"),
            "outcome": verdict.outcome.value,
        },
        markup=verdict_markup(verdict),
        notes=notes,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledCaseRecord:
    """A case in the document that `--results` writes with `--topology`.

    Fields that are not listed here have the same meaning as in CompiledVerdict.

    Attributes:
        id: The id of the case's test in pytest.
        topology: The name of the topology for which the case is compiled.
        compiler: The label of the compiler; empty if the session has a single compiler.
        spec: The case as it was selected.
        failed: Whether the test of the case fails.
        text: The reason for the outcome.
        case: The case on the devices of the topology; None if the case was not compiled.
        expected: Whether the case ran out of memory as expected.
        program: The compiled program, compared with an earlier program.

    """

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
    """The document that `--results` writes with `--topology`.

    Attributes:
        document: The name of this kind of document.
        compilers: The Compiler of each topology and compiler label.
        cases: The selected cases with their verdicts.

    """

    document: str = "busbw compiled results"
    compilers: tuple[Compiler, ...]
    cases: tuple[CompiledCaseRecord, ...]

    @property
    def verdicts(self) -> tuple[CompiledVerdict, ...]:
        """The verdicts on the cases, in the order of the document."""
        return tuple(
            dataclass_from(CompiledVerdict, case, spec=dataclass_from(CompileSpec, case.spec, case))
            for case in self.cases
        )

    def describe_without_verdict(self) -> SessionDescription:
        """Return the title, the facts and the tables of the session, for a summary or a page."""
        return SessionDescription(
            title="Collectives as they are compiled",
            facts={"began": self.began_text, "host": self.host},
            tables=compiled_case_tables(self.verdicts),
        )


def results_json(judged_session: JudgedSession) -> str:
    """Return the session's results as JSON, with ``~`` in place of the path of the home folder."""
    compilation = judged_session.observations
    assert isinstance(compilation, CompilingSession)
    results = CompiledResults(
        **common_result_fields(judged_session),
        compilers=tuple(compilation.compilers.values()),
        cases=tuple(map(case_record_of, judged_session.verdicts.values())),
    )
    document = shorten_homes_in_document(wire.to_json(results), os.path.expanduser("~"))
    return json.dumps(document, indent=1) + "\n"


def as_compiled_verdict(verdict: Verdict) -> CompiledVerdict:
    """Return `verdict` as a CompiledVerdict.

    A session that ended before it compiled has verdicts of the class Verdict. Such a verdict is
    converted to a CompiledVerdict without a program.
    """
    return (
        verdict
        if isinstance(verdict, CompiledVerdict)
        else dataclass_from(CompiledVerdict, verdict)
    )


def case_record_of(verdict: Verdict) -> CompiledCaseRecord:
    """Return the record of a case for the results document, with the values of `verdict`."""
    return dataclass_from(
        CompiledCaseRecord,
        as_compiled_verdict(verdict),
        verdict.spec,
        id=verdict.spec.id,
        spec=dataclass_from(CaseSpec, verdict.spec),
    )

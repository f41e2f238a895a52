"""Store compiled programs in a folder of their own, below the folder of baselines.

The files have the layout of baseline files with times: a line for each payload. They list no
sessions, because a compiler makes the same program every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import storage
from busbw.baselines import files
from busbw.baselines.document import StoredFile, StoredLine, read_stored_file, stored_text
from busbw.model.case import Case, convert_to
from busbw.model.field_types import Date
from busbw.model.machine import EnvironmentKey
from busbw.model.words import payload_text
from busbw.report.session import ChangeRow

from .worker_values import CompiledBaseline, CompiledProgram

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
    return _program_of_case(
        case, _read_stored(files.baseline_path(root / FOLDER, key, case), key, case)
    )


def _program_of_case(case: Case, programs: StoredPrograms) -> CompiledBaseline | None:
    """Return the program of a case, with the protocol with which it was stored.

    Return None if `programs` does not have the case.
    """
    program = programs.get(case.line_key)
    return program and replace(program, case=replace(case, protocol=program.case.protocol))


def _read_stored(path: Path, key: EnvironmentKey, case: Case) -> StoredPrograms:
    """Return the programs of the file at `path`; empty if there is no such file.

    Raises BaselineError if the file is damaged or does not belong to the case and its environment.
    """
    if not files.path_exists(path):
        return {}
    stored, programs = read_programs(path)
    files.check_matches_path(path, stored, key, case)
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
    with files.lock_for_writing(root):
        for key, new in accepted_programs:
            path = files.baseline_path(root / FOLDER, key, new.case)
            programs = changed[path][1] if path in changed else _read_stored(path, key, new.case)
            before = _program_of_case(new.case, programs)
            if before is not None and replace(before, date=new.date) == new:
                continue
            changed[path] = key, {**programs, new.case.line_key: new}
            changes.append((path, new.case, before.text if before else "none", new.text, ""))
        if changed:
            files.remove_half_written_files(root)
        for path, (key, programs) in changed.items():
            storage.write(path, file_text(key, programs))
    return changes

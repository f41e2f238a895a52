"""Stored programs: in a folder of their own below that of baselines, with the same layout of files.

A file has a line for each payload and no sessions: a compiler gives the same program every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import storage
from busbw.baselines import files
from busbw.baselines.document import StoredFile, StoredLine, read_stored_file, stored_text
from busbw.model.case import Case, convert_to
from busbw.model.field_types import Date, Natural
from busbw.model.machine import EnvironmentKey, slug
from busbw.model.words import payload_text
from busbw.report.session import ChangeRow

from .worker_values import Compiled, CompiledBaseline, Topology

FOLDER = "compiled"

_DOCUMENT = "busbw compiled baselines"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramLine(StoredLine):
    """What `release` made of a payload on `date`; without a program it was out of memory."""

    release: str
    date: Date
    compiled: Compiled | None = None
    needed_bytes: Natural | None = None
    available_bytes: Natural | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramFile(StoredFile):
    """One file of programs."""

    document: str = _DOCUMENT
    entries: tuple[ProgramLine, ...]


Programs = Mapping[tuple[object, ...], CompiledBaseline]


def read(path: Path) -> tuple[ProgramFile, Programs]:
    """Read a file, and its programs by what names a case in it. Raises BaselineError."""
    stored, cases = read_stored_file(path, ProgramFile, _DOCUMENT)
    return stored, {
        case.line_key: convert_to(CompiledBaseline, line, case=case)
        for line, case in zip(stored.entries, cases)
    }


def dumps(key: EnvironmentKey, programs: Programs) -> str:
    """Return the text of a file; lines are sorted, so that a review shows what changed."""
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


def find(root: Path, key: EnvironmentKey, case: Case) -> CompiledBaseline | None:
    """Find the program that is stored below `root`. Raises BaselineError for a bad file."""
    return _program_of(case, _stored(files.baseline_path(root / FOLDER, key, case), key, case))


def _program_of(case: Case, programs: Programs) -> CompiledBaseline | None:
    """Return the program of `case`, with the protocol that it was stored with."""
    program = programs.get(case.line_key)
    return program and replace(program, case=replace(case, protocol=program.case.protocol))


def _stored(path: Path, key: EnvironmentKey, case: Case) -> Programs:
    if not files.path_exists(path):
        return {}
    stored, programs = read(path)
    files.check_matches_path(path, stored, key, case)
    return programs


def has_any(root: Path, topology: Topology, framework: str) -> bool:
    """Tell whether anything of `framework` is stored for the ranks of `topology`.

    Decided by the name of the folder: the full key is known only where there is a compiler.
    """
    kind = root / FOLDER / slug(topology.device_kind)
    ranks = f"{topology.ranks}r"
    folders = (kind / ranks, *kind.glob(f"{ranks}-*"))
    return any(True for folder in folders for _ in folder.glob(f"{framework}.*.json"))


def save(
    root: Path,
    accepted: Sequence[tuple[EnvironmentKey, CompiledBaseline]],
    *,
    only_new: bool = False,
) -> list[ChangeRow]:
    """Write what was accepted below `root`; what did not change is not written again.

    Files are read again under a lock, and only the given programs are replaced. With `only_new`
    what is stored stays. Raises BaselineError if a file cannot be read and OSError if one cannot be
    written.
    """
    changes: list[ChangeRow] = []
    texts: dict[Path, str] = {}
    opened: dict[Path, Programs] = {}
    with files.lock_for_writing(root):
        for key, new in accepted:
            path = files.baseline_path(root / FOLDER, key, new.case)
            programs = opened[path] if path in opened else _stored(path, key, new.case)
            before = _program_of(new.case, programs)
            if before is not None and (only_new or replace(before, date=new.date) == new):
                continue
            opened[path] = {**programs, new.case.line_key: new}
            texts[path] = dumps(key, opened[path])
            was = before.text if before is not None else "none"
            changes.append((path, new.case, was, new.text, ""))
        if texts:
            files.remove_half_written_files(root)
        for path, text in texts.items():
            storage.write(path, text)
    return changes

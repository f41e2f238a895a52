"""Baselines of compiled programs: `compiled/` in the baselines folder, with the same layout.

`compiled/<device kind>/<ranks>r[-<mesh>]/<framework>.<collective>.<strategy>.json`, one line per
payload. It holds no times and no sessions: a compiler gives the same program every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from busbw import wire
from busbw.model.case import Case, converted
from busbw.model.launch import Compiled, Failure
from busbw.model.machine import EnvironmentKey, Protocol, Topology, slug
from busbw.model.stored import CompiledBaseline, check_case, check_compiled
from busbw.model.words import payload_text

from . import files
from .document import Status, StoredFile, StoredLine, case_of, check_date, check_file, located
from .files import Codec, drafted
from .updates import Change


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledEntry(StoredLine):
    """One line: what `release` made of a payload on `date`, or that it was out of memory."""

    protocol: Protocol
    release: str
    date: str
    compiled: Compiled | None = None
    needed_bytes: int | None = None
    available_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledDocument(StoredFile):
    """One file of programs."""

    document: str = "busbw compiled baseline"
    entries: tuple[CompiledEntry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedCompiled:
    """What to store of a case: the program, or an out-of-memory Failure."""

    key: EnvironmentKey
    case: Case
    now: Compiled | Failure
    release: str


def find_compiled(root: Path, key: EnvironmentKey, case: Case) -> CompiledBaseline | None:
    """What is stored below `root` for `case` on `key`. Raises BaselineError for a bad file."""
    path = files.path_of(root, key, case, files.COMPILED_FOLDER)
    document = files.stored(COMPILED, path, key, case)
    entry = _entry(document, case) if document is not None else None
    return _baseline(case, entry) if entry else None


def has_compiled(root: Path, topology: Topology, framework: str) -> bool:
    """Whether anything of `framework` is stored below `root` for the ranks of `topology`.

    Decided by the name of the folder: the full key is known only where there is a compiler.
    """
    kind = root / files.COMPILED_FOLDER / slug(topology.device_kind)
    ranks = f"{topology.ranks}r"
    folders = (kind / ranks, *kind.glob(f"{ranks}-*"))
    return any(True for folder in folders for _ in folder.glob(f"{framework}.*.json"))


def save_compiled(
    root: Path, accepted: Sequence[AcceptedCompiled], *, date: str, only_new: bool = False
) -> tuple[Change[CompiledBaseline], ...]:
    """Write what was accepted below `root`; what did not change is not written again.

    Files are read again under a lock, only the given entries are replaced, and either all files are
    written or none. With `only_new` existing entries stay. Raises BaselineError if a file cannot be
    read and
    OSError if one cannot be written.
    """
    changes: list[Change[CompiledBaseline]] = []
    with drafted(root, COMPILED) as draft:
        for one in accepted:
            path, document = draft.opened(one.key, one.case)
            old, new = _entry(document, one.case), _entry_of(one, date)
            if old is not None and (only_new or replace(old, date=date) == new):
                continue
            others = [entry for entry in document.entries if entry.line_key != new.line_key]
            draft.put(path, replace(document, entries=(*others, new)))
            before = _baseline(one.case, old) if old else None
            after = _baseline(one.case, new)
            changes.append(Change(path=path, case=one.case, before=before, after=after))
    return tuple(changes)


def _checked(raw: Any) -> CompiledDocument:
    """The document in `raw`. Raises WireError with the location of what no file can hold."""
    document = wire.from_json(CompiledDocument, raw, "document")
    check_file(document)
    for index, entry in enumerate(document.entries):
        location = f"document.entries[{index}]"
        check_date(entry.date, f"{location}.date")
        with located(location):
            check_case(case_of(document, entry, entry.protocol))
        if (entry.compiled is None) is (entry.status is Status.OK):
            raise wire.WireError(
                f"{location}.compiled: expected with the status 'ok' and only then"
            )
        if entry.compiled is not None:
            with located(f"{location}.compiled"):
                check_compiled(entry.compiled)
    return document


def _entry(document: CompiledDocument, case: Case) -> CompiledEntry | None:
    return next((entry for entry in document.entries if entry.line_key == case.key.line_key), None)


def _entry_of(one: AcceptedCompiled, date: str) -> CompiledEntry:
    failure = one.now if isinstance(one.now, Failure) else None
    return CompiledEntry(
        dtype=one.case.dtype,
        reduce_op=one.case.reduce_op,
        placement=one.case.placement,
        axes=one.case.axes,
        payload=payload_text(one.case.payload_bytes),
        payload_bytes=one.case.payload_bytes,
        status=Status.OOM if failure else Status.OK,
        protocol=one.case.protocol,
        release=one.release,
        date=date,
        compiled=None if isinstance(one.now, Failure) else one.now,
        needed_bytes=failure.needed_bytes if failure else None,
        available_bytes=failure.available_bytes if failure else None,
    )


def _baseline(case: Case, entry: CompiledEntry) -> CompiledBaseline:
    return converted(CompiledBaseline, entry, case=replace(case, protocol=entry.protocol))


COMPILED = Codec(kind=CompiledDocument, folder=files.COMPILED_FOLDER, checked=_checked)

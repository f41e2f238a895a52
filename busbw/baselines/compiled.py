"""What compilers made of cases, on disk: `compiled/` below the baselines folder, laid out as it is.

`compiled/<device kind>/<ranks>r[-<mesh>]/<framework>.<collective>.<strategy>.json`, one line per
payload. No time is in it, and no session: a compiler gives the same program every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import wire, writing
from busbw.model import (
    Case,
    Compiled,
    CompiledBaseline,
    EnvironmentKey,
    Failure,
    Protocol,
    Topology,
    payload_text,
)
from busbw.workloads import Collective

from . import files
from .document import (
    BaselineError,
    Status,
    check_bytes,
    check_case,
    check_compiled,
    check_date,
    check_key,
    check_payload,
    one_line_each,
    read_json,
)
from .key import slug

SCHEMA = 1
FOLDER = "compiled"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledEntry:
    """One line: what `release` made of a payload on `date`, or that it was out of memory."""

    dtype: str
    reduce_op: str
    placement: str
    axes: str = ""
    payload: str
    payload_bytes: int
    status: Status
    protocol: Protocol
    release: str
    date: str
    compiled: Compiled | None = None
    needed_bytes: int | None = None
    available_bytes: int | None = None

    @property
    def place(self) -> tuple[str, str, str, str, int]:
        """What the entry is about, and its place among the others."""
        return (self.dtype, self.reduce_op, self.placement, self.axes, self.payload_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledDocument:
    """One file: the Environment key in full, the rest of the Case, and the entries."""

    schema: int
    environment: EnvironmentKey
    framework: str
    collective: str
    strategy: str
    entries: tuple[CompiledEntry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedCompiled:
    """What is to be stored of a case: the program, or a Failure that says out of memory."""

    key: EnvironmentKey
    case: Case
    now: Compiled | Failure
    release: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledChange:
    """One compiled baseline before and after; None: there was none."""

    path: Path
    before: CompiledBaseline | None
    after: CompiledBaseline


def find_compiled(root: Path, key: EnvironmentKey, case: Case) -> CompiledBaseline | None:
    """What is stored below `root` for `case` on `key`. Raises BaselineError for a bad file."""
    path = files.path_of(root / FOLDER, key, case)
    if not files.there(path):
        return None
    entry = _entry(_read(path, key, case), case)
    return _baseline(case, entry) if entry else None


def has_compiled(root: Path, topology: Topology, framework: str) -> bool:
    """Whether anything of `framework` is stored below `root` for so many ranks of such a chip.

    Told by the folder's name: the key in full is known only where there is a compiler.
    """
    kind, ranks = root / FOLDER / slug(topology.device_kind), f"{topology.ranks}r"
    folders = (kind / ranks, *kind.glob(f"{ranks}-*"))
    return any(True for folder in folders for _ in folder.glob(f"{framework}.*.json"))


def save_compiled(
    root: Path, accepted: Sequence[AcceptedCompiled], *, date: str, only_new: bool = False
) -> tuple[CompiledChange, ...]:
    """Write what was accepted below `root`; what is as it was is not written again.

    Files are read again under a lock, only the given entries replaced, and all files replaced or
    none. With `only_new` existing entries stay. Raises BaselineError if a file cannot be read and
    OSError if one cannot be written.
    """
    changes: list[CompiledChange] = []
    if not accepted:
        return ()
    with files.locked(root) as seen:
        documents: dict[Path, CompiledDocument] = {}
        for one in accepted:
            path = files.path_of(root / FOLDER, one.key, one.case)
            document = documents.get(path) or _opened(path, one.key, one.case)
            documents[path] = document
            old, new = _entry(document, one.case), _entry_of(one, date)
            if old is not None and (only_new or _same(old, new)):
                continue
            others = [entry for entry in document.entries if entry.place != new.place]
            documents[path] = replace(document, entries=(*others, new))
            before = _baseline(one.case, old) if old else None
            changes.append(CompiledChange(path=path, before=before, after=_baseline(one.case, new)))
        seen.check(documents)
        paths = dict.fromkeys(change.path for change in changes)
        writing.write_all({path: _text(documents[path]) for path in paths})
    return tuple(changes)


def _same(old: CompiledEntry, new: CompiledEntry) -> bool:
    return replace(old, date=new.date) == new


def _opened(path: Path, key: EnvironmentKey, case: Case) -> CompiledDocument:
    if files.there(path):
        return _read(path, key, case)
    return CompiledDocument(
        schema=SCHEMA,
        environment=key,
        framework=case.framework,
        collective=case.collective,
        strategy=case.strategy,
        entries=(),
    )


def _read(path: Path, key: EnvironmentKey, case: Case) -> CompiledDocument:
    try:
        document = wire.from_json(CompiledDocument, read_json(path), "document")
        _check(document)
    except wire.WireError as error:
        raise BaselineError(f"{path}: {error}") from error
    names = (document.framework, document.collective, document.strategy)
    if document.environment != key or names != (case.framework, case.collective, case.strategy):
        raise BaselineError(
            f"{path}: document.environment: the file says {document.environment} and "
            f"{'.'.join(names)}, its place says {key} and {case.key.file_name}"
        )
    return document


def _check(document: CompiledDocument) -> None:
    """Raises WireError with the place of what no entry can hold."""
    if document.schema != SCHEMA:
        raise wire.WireError(f"document.schema: expected {SCHEMA}, got {document.schema}")
    check_key(document.environment, "document.environment")
    seen = set()
    for index, entry in enumerate(document.entries):
        where = f"document.entries[{index}]"
        check_payload(entry.payload, entry.payload_bytes, where)
        check_bytes(entry, where)
        check_date(entry.date, f"{where}.date")
        check_case(_case_of(document, entry), where)
        if (entry.compiled is None) is (entry.status is Status.OK):
            raise wire.WireError(f"{where}.compiled: expected with the status 'ok' and only then")
        if entry.compiled is not None:
            check_compiled(entry.compiled, f"{where}.compiled")
        if entry.place in seen:
            raise wire.WireError(f"{where}: a second entry for {entry.dtype} {entry.payload}")
        seen.add(entry.place)


def _case_of(document: CompiledDocument, entry: CompiledEntry) -> Case:
    return Case(
        framework=document.framework,
        payload_bytes=entry.payload_bytes,
        workload=Collective(
            collective=document.collective,
            reduce_op=entry.reduce_op,
            placement=entry.placement,
            axes=entry.axes,
        ),
        strategy=document.strategy,
        dtype=entry.dtype,
        ranks=document.environment.ranks,
        mesh=document.environment.mesh,
        protocol=entry.protocol,
    )


def _text(document: CompiledDocument) -> str:
    entries = sorted(document.entries, key=lambda entry: entry.place)
    return one_line_each(document, {"entries": entries})


def _entry(document: CompiledDocument, case: Case) -> CompiledEntry | None:
    return next((entry for entry in document.entries if entry.place == case.key.entry), None)


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
    return CompiledBaseline(
        case=replace(case, protocol=entry.protocol),
        compiled=entry.compiled,
        date=entry.date,
        release=entry.release,
        needed_bytes=entry.needed_bytes,
        available_bytes=entry.available_bytes,
    )

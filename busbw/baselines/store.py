"""Find a case's baseline; save a session's accepted ones: merged, atomic, one writer at a time.

Knows files and the layout; whether something deserves to be saved is decided elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import filelock

from busbw.model import Baseline, Case, EnvironmentKey, Measurement, payload_text

from . import document as documents
from .document import BaselineError, Document, Entry, Status
from .key import file_name_of, folder_of

LOCK_TIMEOUT_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The answer to a search: a baseline, or none and the nearest key that has one."""

    path: Path
    baseline: Baseline | None = None
    nearest: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One baseline before and after a save, times in seconds; None: there was none."""

    path: Path
    case: Case
    before: Baseline | None
    after: Baseline


def find(root: Path, key: EnvironmentKey, case: Case) -> Found:
    """What is stored below `root` for `case` on `key`. Raises BaselineError for a bad file."""
    path = root / folder_of(key) / file_name_of(case)
    if not path.exists():
        return Found(path=path, nearest=_nearest(root, key, case))
    document = _read_checked(path, key, case)
    entry = next((e for e in document.entries if e.place == _place(case)), None)
    return Found(path=path, baseline=_baseline(case, entry) if entry else None)


def _read_checked(path: Path, key: EnvironmentKey, case: Case) -> Document:
    document = documents.read(path)
    names = (document.framework, document.collective, document.strategy)
    if document.environment != key or names != (case.framework, case.collective, case.strategy):
        raise BaselineError(
            f"{path}: document.environment: the file says {document.environment} and "
            f"{'.'.join(names)}, its place says {key} and {file_name_of(case)}"
        )
    return document


def _place(case: Case) -> tuple[str, str, str, str, int]:
    return (case.dtype, case.reduce_op, case.placement, case.axes, case.payload_bytes)


def _baseline(case: Case, entry: Entry) -> Baseline:
    return Baseline(
        case=replace(case, protocol=entry.protocol),
        times_s=tuple(time_us / 1e6 for time_us in entry.times_us),
        oom=entry.status is Status.OOM,
        date=entry.date,
        versions=entry.versions,
        needed_bytes=entry.needed_bytes,
        available_bytes=entry.available_bytes,
    )


def _nearest(root: Path, key: EnvironmentKey, case: Case) -> str:
    """Which other key has a file for this framework, collective and strategy, if any."""
    wanted = folder_of(key)
    there = [
        path.parent.relative_to(root) for path in sorted(root.glob(f"*/*/{file_name_of(case)}"))
    ]
    if not there:
        return ""
    best = max(there, key=lambda f: (f.parts[0] == wanted.parts[0], f.parts[1] == wanted.parts[1]))
    return f"no baseline for {wanted}, the nearest is for {best.as_posix()}"


def save(
    root: Path,
    accepted: Sequence[tuple[EnvironmentKey, Measurement, Sequence[float]]],
    *,
    date: str,
    only_new: bool = False,
) -> tuple[Change, ...]:
    """Write each measurement's launch times (seconds; none for out of memory) below `root`.

    Files are read again under a lock and only the given entries replaced, so that two sessions
    lose nothing; each file is replaced atomically. `only_new` leaves existing entries alone.
    Raises BaselineError, and writes nothing, if an existing file cannot be read.
    """
    with _locked(root):
        plans = [_planned(root, key, m, times, date) for key, m, times in accepted]
        merged: dict[Path, Document] = {}
        changes = []
        for path, empty, case, entry in plans:
            document = merged.get(path) or (
                _read_checked(path, empty.environment, case) if path.exists() else empty
            )
            old = next((e for e in document.entries if e.place == entry.place), None)
            merged[path] = document
            if only_new and old is not None:
                continue
            others = tuple(e for e in document.entries if e.place != entry.place)
            merged[path] = replace(document, entries=(*others, entry))
            before = _baseline(case, old) if old else None
            changes.append(
                Change(path=path, case=case, before=before, after=_baseline(case, entry))
            )
        for path in {change.path for change in changes}:
            _write(path, documents.dumps(merged[path]))
    return tuple(changes)


def _planned(
    root: Path, key: EnvironmentKey, measurement: Measurement, times_s: Sequence[float], date: str
) -> tuple[Path, Document, Case, Entry]:
    case = measurement.case
    failure = measurement.failures[0] if measurement.failures else None
    entry = Entry(
        dtype=case.dtype,
        reduce_op=case.reduce_op,
        placement=case.placement,
        axes=case.axes,
        payload=payload_text(case.payload_bytes),
        payload_bytes=case.payload_bytes,
        status=Status.OK if times_s else Status.OOM,
        times_us=tuple(float(f"{time_s * 1e6:.6g}") for time_s in times_s),
        needed_bytes=failure.needed_bytes if failure else None,
        available_bytes=failure.available_bytes if failure else None,
        protocol=case.protocol,
        date=date,
        versions=measurement.runs[0].versions if measurement.runs else {},
    )
    empty = Document(
        schema=documents.SCHEMA,
        environment=key,
        framework=case.framework,
        collective=case.collective,
        strategy=case.strategy,
        entries=(),
    )
    return root / folder_of(key) / file_name_of(case), empty, case, entry


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One writer per baselines folder. The lock lies outside of it: the folder holds data only."""
    root.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]
    lock = Path(tempfile.gettempdir()) / f"busbw-{os.getuid()}-{name}.lock"
    try:
        with filelock.FileLock(lock, timeout=LOCK_TIMEOUT_S):
            yield
    except filelock.Timeout as error:
        raise BaselineError(
            f"{root}: another session has been writing for {LOCK_TIMEOUT_S:.0f} s"
        ) from error


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise

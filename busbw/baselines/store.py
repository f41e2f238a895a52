"""Find what a case is compared with: its baseline, or a published figure.

Reads files and writes none. Published figures were measured by another method: they are shown,
never judged. They are next to the baselines, in
``<device kind>/<ranks>r/published.<collective>.<name>.json``; no update touches them, and they have
their own form: a bandwidth per payload, with its source.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from busbw import wire
from busbw.model.case import Case, CaseKey
from busbw.model.limits import Payload, Positive
from busbw.model.machine import EnvironmentKey, Topology, slug
from busbw.model.stored import Baseline, CompiledBaseline
from busbw.model.verdict import Reference
from busbw.model.words import payload_of

from . import files
from .document import (
    COMPILED_FOLDER,
    PROGRAMS,
    TIMED,
    BaselineError,
    read,
    read_json,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundBaseline:
    """The answer to a search: a baseline, or none and the nearest key that has one.

    `other_strategy` is one with which the same case has a baseline, if its own has none.
    `incomparable` says of a baseline of as many ranks that only one of the two shares a device.
    """

    baseline: Baseline | None = None
    nearest: str = ""
    other_strategy: str = ""
    incomparable: str = ""


def find(
    root: Path, key: EnvironmentKey, case: Case, *, memory_limit_bytes: int | None = None
) -> FoundBaseline:
    """What is stored below `root` for `case` on `key`. Raises BaselineError for a bad file.

    Under an artificial memory limit, that is out of memory under the same limit, or else what is
    stored without a limit; never what is stored under another one.
    """
    path = files.path_of(root, key, case)
    document = files.stored(TIMED, path, key, case)
    if document is not None:
        found = document.find(case, memory_limit_bytes) or document.find(case)
        if found is not None:
            return FoundBaseline(baseline=found)
    nearest = "" if document is not None else _nearest(root, key, case)
    return FoundBaseline(
        nearest=nearest,
        other_strategy=_other_strategy(root, key, case),
        incomparable=_otherwise_shared(root, key, case),
    )


def all_at(root: Path, key: EnvironmentKey, framework: str) -> tuple[Baseline, ...]:
    """Every baseline of `framework` on `key`. Raises BaselineError for a bad file."""
    paths = sorted((root / key.folder).glob(f"{framework}.*.*.json"))
    return tuple(one for path in paths for one in read(TIMED, path).baselines)


def frameworks_at(root: Path, key: EnvironmentKey) -> frozenset[str]:
    return _frameworks((root / key.folder).glob("*.*.*.json"))


def other_ranks(root: Path, key: EnvironmentKey) -> dict[int, str]:
    """By the numbers of ranks of this kind of device that have baselines, the day of the newest.

    As many ranks as `key` has count, too, where only one of the two shares a device. Empty where
    `key` itself has some. Raises BaselineError for a file that cannot be read.
    """
    if frameworks_at(root, key):
        return {}
    found: dict[int, str] = {}
    for path in sorted((root / key.folder.parent).glob("*/*.*.*.json")):
        if _frameworks([path]):
            contents = read(TIMED, path)
            if (contents.key.ranks, contents.key.shared) == (key.ranks, key.shared):
                continue
            days = [found.get(contents.key.ranks, ""), *(one.date for one in contents.baselines)]
            found[contents.key.ranks] = max(days)
    return found


def find_compiled(root: Path, key: EnvironmentKey, case: Case) -> CompiledBaseline | None:
    """The program that is stored below `root`. Raises BaselineError for a bad file."""
    path = files.path_of(root, key, case, COMPILED_FOLDER)
    document = files.stored(PROGRAMS, path, key, case)
    return document.find(case) if document is not None else None


def has_compiled(root: Path, topology: Topology, framework: str) -> bool:
    """Whether anything of `framework` is stored below `root` for the ranks of `topology`.

    Decided by the name of the folder: the full key is known only where there is a compiler.
    """
    kind = root / COMPILED_FOLDER / slug(topology.device_kind)
    ranks = f"{topology.ranks}r"
    folders = (kind / ranks, *kind.glob(f"{ranks}-*"))
    return any(True for folder in folders for _ in folder.glob(f"{framework}.*.json"))


def frameworks_below(root: Path) -> frozenset[str]:
    return _frameworks(root.glob("*/*/*.*.*.json"))


def _frameworks(paths: Iterable[Path]) -> frozenset[str]:
    named = (CaseKey.of_file(path.name) for path in paths)
    found = frozenset(one.framework for one in named if one is not None)
    return found - {_PUBLISHED}


def _other_strategy(root: Path, key: EnvironmentKey, case: Case) -> str:
    folder = root / key.folder
    for path in sorted(folder.glob(f"{case.key.stem}.*.json")):
        named = CaseKey.of_file(path.name)
        other = replace(case, strategy=named.strategy) if named is not None else case
        document = files.stored(TIMED, path, key, other) if other != case else None
        if document is not None and document.find(other):
            return other.strategy
    return ""


def _otherwise_shared(root: Path, key: EnvironmentKey, case: Case) -> str:
    folders = (root / key.folder.parent).glob(f"{key.ranks}r*")
    for folder in sorted(
        folder for folder in folders if folder.name.endswith("-shared") != key.shared
    ):
        path = folder / case.key.file_name
        document = read(TIMED, path) if files.exists(path) else None
        if document is not None and document.find(case) is not None:
            do = "share" if document.key.shared else "do not share"
            return f"the ranks of its baseline for {folder.name} {do} a device, unlike these"
    return ""


def _nearest(root: Path, key: EnvironmentKey, case: Case) -> str:
    wanted = key.folder
    there = [
        path.parent.relative_to(root) for path in sorted(root.glob(f"*/*/{case.key.file_name}"))
    ]
    if not there:
        return ""
    best = max(there, key=lambda f: (f.parts[0] == wanted.parts[0], f.parts[1] == wanted.parts[1]))
    return f"no baseline for {wanted}, the nearest is for {best.as_posix()}"


# Stands where the name of a framework does in the names of other files.
_PUBLISHED = "published"


class Status(enum.StrEnum):
    """Whether the payload was timed or did not fit."""

    OK = "ok"
    OOM = "oom"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedEntry:
    """One line: algbw in GB/s (10^9), or that the source says out of memory."""

    payload: Annotated[str, payload_of]
    payload_bytes: Payload
    status: Status
    algbw_gb_per_s: Positive | None = None
    doubt: str = ""

    def validate(self) -> None:
        """Raise ValueError, which begins with the field, for what no table can hold."""
        if payload_of(self.payload) != self.payload_bytes:
            raise ValueError(f"payload: {self.payload!r} is not {self.payload_bytes} bytes")
        if (self.algbw_gb_per_s is None) is (self.status is Status.OK):
            raise ValueError("algbw_gb_per_s: expected with the status 'ok' and only then")


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """One published table for one device kind and number of ranks."""

    document: str
    version: int
    source: str
    method: str
    slice: str
    device_kind: str
    ranks: int
    collective: str
    entries: tuple[PublishedEntry, ...]


def read_published(path: Path) -> Published:
    """The checked table in `path`; raises BaselineError."""
    try:
        raw = read_json(path)
        wire.check_document(raw, "busbw published figures", "write it anew")
        return wire.from_json(Published, raw, "document")
    except wire.WireError as error:
        raise BaselineError(f"{path}: {error}") from error


def find_published(root: Path, key: EnvironmentKey, case: Case) -> Reference | None:
    """What was published for this payload on this device kind and number of ranks, if anything."""
    folder = root / slug(key.device_kind) / f"{key.ranks}r"
    for path in sorted(folder.glob(f"{_PUBLISHED}.{case.collective}.*.json")):
        table = read_published(path)
        for entry in table.entries:
            if entry.payload_bytes == case.payload_bytes:
                return Reference(
                    source=f"{table.slice}: {table.source}",
                    oom=entry.status is Status.OOM,
                    algbw_gb_per_s=entry.algbw_gb_per_s,
                    doubt=entry.doubt,
                )
    return None

"""Find the baseline of a case, and published figures; no file is written.

Published figures were measured by another method: they are shown, never judged. They are next to
the baselines, in ``<device kind>/<ranks>r/published.<collective>.<name>.json``, which no update
changes. Such a file has a bandwidth per payload, with its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from busbw import storage, wire
from busbw.model.case import Case
from busbw.model.limits import Positive
from busbw.model.machine import EnvironmentKey, slug
from busbw.model.stored import Baseline
from busbw.model.verdict import Reference
from busbw.model.words import payload_of

from . import files
from .document import BaselineError, BaselineFile, read, read_json


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineSearch:
    """A baseline, or None and what else is stored that is like it.

    `other_strategy` is a strategy with which the same case has a baseline. `incomparable` says that
    there is a baseline of as many ranks, but only one of the two sessions shares a device.
    """

    baseline: Baseline | None = None
    other_strategy: str = ""
    incomparable: str = ""


def find(
    root: Path, key: EnvironmentKey, case: Case, *, memory_limit_bytes: int | None = None
) -> BaselineSearch:
    """Find the baseline of `case` on `key` below `root`. Raises BaselineError for a bad file.

    Under an artificial memory limit that is an out-of-memory entry with the same limit, or else the
    baseline without a limit, and never an entry with another limit.
    """
    path = files.path_of(root, key, case)
    document = files.read_stored(path, key, case)
    if document is not None:
        baseline = document.find(case, memory_limit_bytes) or document.find(case)
        if baseline is not None:
            return BaselineSearch(baseline=baseline)
    return BaselineSearch(
        other_strategy=_other_strategy(root, key, case),
        incomparable=_otherwise_shared(root, key, case),
    )


def all_at(root: Path, key: EnvironmentKey, framework: str) -> tuple[BaselineFile, ...]:
    """Read all files of `framework` on `key`.

    Raises BaselineError for a bad file, and for a copy: its times would count beside the original.
    """
    stored = []
    for path in sorted((root / key.folder).glob(f"{framework}.*.*.json")):
        file = read(path)
        for baseline in file.baselines:
            if path.name != baseline.case.file_name:
                raise BaselineError(
                    f"{path}: expected the name {baseline.case.file_name} for what it holds; "
                    "move a copy out of the folder of baselines"
                )
        stored.append(file)
    return tuple(stored)


def frameworks_at(root: Path, key: EnvironmentKey) -> frozenset[str]:
    """Return the frameworks that have baselines on `key`. Raises BaselineError without access."""
    folder = root / key.folder
    with storage.raised_as(BaselineError, storage.InputError, where=f"{folder}: "):
        storage.check_is_folder(folder)
    return _frameworks(folder.glob("*.*.*.json"))


def other_ranks(root: Path, key: EnvironmentKey) -> dict[int, str]:
    """Return the date of the newest baseline for other numbers of ranks of this kind of device.

    The number of ranks of `key` counts, too, if only one of the two shares a device. Empty if `key`
    has baselines. Raises BaselineError for a file that cannot be read.
    """
    if frameworks_at(root, key):
        return {}
    dates: dict[int, str] = {}
    for path in sorted((root / key.folder.parent).glob("*/*.*.*.json")):
        if _frameworks([path]):
            contents = read(path)
            ranks, is_shared = contents.environment.ranks, contents.environment.shared
            if (ranks, is_shared) != (key.ranks, key.shared):
                newest = (baseline.date for baseline in contents.baselines)
                dates[ranks] = max(dates.get(ranks, ""), *newest)
    return dates


def frameworks_below(root: Path) -> frozenset[str]:
    """Return the frameworks that have baselines below `root`, on whichever machine."""
    return _frameworks(root.glob("*/*/*.*.*.json"))


# A framework, a collective or all those of a program, and a strategy.
_FILE_NAME = re.compile(r"([^.]+)\.(?:program\.all|(?!all\.)[^.]+)\.([^.]+)\.json")


def _frameworks(paths: Iterable[Path]) -> frozenset[str]:
    matches = (_FILE_NAME.fullmatch(path.name) for path in paths)
    return frozenset(match[1] for match in matches if match) - {_PUBLISHED}


def _other_strategy(root: Path, key: EnvironmentKey, case: Case) -> str:
    folder = root / key.folder
    for path in sorted(folder.glob(f"{case.stem}.*.json")):
        match = _FILE_NAME.fullmatch(path.name)
        other = replace(case, strategy=match[2]) if match else case
        document = files.read_stored(path, key, other) if other != case else None
        if document is not None and document.find(other):
            return other.strategy
    return ""


def _otherwise_shared(root: Path, key: EnvironmentKey, case: Case) -> str:
    folders = (root / key.folder.parent).glob(f"{key.ranks}r*")
    for folder in sorted(
        folder for folder in folders if folder.name.endswith("-shared") != key.shared
    ):
        path = folder / case.file_name
        document = read(path) if files.exists(path) else None
        if document is not None and document.find(case) is not None:
            do = "share" if document.environment.shared else "do not share"
            return f"the ranks of its baseline for {folder.name} {do} a device, unlike these"
    return ""


# The first part of the name of a file, in place of a framework.
_PUBLISHED = "published"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedEntry:
    """One published figure: algbw in GB/s (10^9), null for out of memory."""

    payload: Annotated[str, payload_of]
    algbw_gb_per_s: Positive | None
    doubt: str = ""

    @property
    def payload_bytes(self) -> int:
        return payload_of(self.payload)


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
    """Read and check the published table in `path`. Raises BaselineError."""
    raw = read_json(path)
    with storage.raised_as(BaselineError, ValueError, where=f"{path}: "):
        wire.check_document(raw, "busbw published figures", "write it anew")
        return wire.from_json(Published, raw, "document")


def find_published(root: Path, key: EnvironmentKey, case: Case) -> Reference | None:
    """Find the published figure of this payload on this device kind and number of ranks, if any."""
    folder = root / slug(key.device_kind) / f"{key.ranks}r"
    for path in sorted(folder.glob(f"{_PUBLISHED}.{case.collective}.*.json")):
        table = read_published(path)
        for figure in table.entries:
            if figure.payload_bytes == case.payload_bytes:
                return Reference(
                    source=f"{table.slice}: {table.source}",
                    oom=figure.algbw_gb_per_s is None,
                    algbw_gb_per_s=figure.algbw_gb_per_s,
                    doubt=figure.doubt,
                )
    return None

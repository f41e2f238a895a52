"""The folder of baselines: find the baseline of a case, lock the folder, and write its changes.

`document` converts the content of a file. Files are read under a lock, changed in memory, and
written once at the end, so that a session can both update and prune a file. The lock excludes other
sessions on this machine, but no editor, no checkout, and no session on another host that mounts the
same folder.

Published bandwidths were measured by other methods, and are shown but never judged. The files of
published bandwidths are next to the baselines:
``<device kind>/<ranks>r/published.<collective>.<name>.json``, which no update changes. Such a file
has a bandwidth for each payload, and the source of the bandwidths.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from busbw import storage
from busbw.model.case import Case
from busbw.model.field_types import Positive
from busbw.model.machine import EnvironmentKey, slug
from busbw.model.stored import Baseline
from busbw.model.verdict import PublishedBandwidth
from busbw.model.words import check_payload_text, payload_text

from .document import (
    BaselineError,
    BaselineFile,
    StoredFile,
    baselines_text,
    read_baselines,
    read_document,
)


def baseline_path(baselines_folder: Path, key: EnvironmentKey, case: Case) -> Path:
    """Return the path of the file with the baselines of `case` on the machine `key`.

    `baselines_folder` is the folder of all baselines. The file need not exist.
    """
    return baselines_folder / key.folder / case.file_name


def path_exists(path: Path) -> bool:
    """Return whether there is a file or folder at `path`.

    Raises BaselineError if the folder that contains `path` cannot be read, or if `path` is a link
    to nothing.
    """
    with storage.reraise_as(BaselineError, storage.InputError, where=f"{path}: "):
        storage.check_readable_folder(path.parent)
        storage.check_no_dangling_link(path)
    return os.path.lexists(path)


def read_matching_file(path: Path, key: EnvironmentKey, case: Case) -> BaselineFile | None:
    """Read the baseline file `path`, which must be for the machine `key` and the kind of `case`.

    The kind is the framework, the collective and the strategy. The result is None if there is no
    file. Raises BaselineError if the file is not valid, or is for another machine or kind of case.
    """
    if not path_exists(path):
        return None
    file = read_baselines(path)
    check_matches_path(path, file, key, case)
    return file


def check_matches_path(path: Path, file: StoredFile, key: EnvironmentKey, case: Case) -> None:
    """Raise BaselineError unless `file` names the machine `key` and the kind of `case`.

    The kind is the framework, the collective and the strategy. `path` is the path from which `file`
    was read, and which follows from `key` and `case`.
    """
    names = (file.framework, file.collective, file.strategy)
    if file.environment != key or names != (case.framework, case.collective, case.strategy):
        # Folders of different keys may have the same name.
        actual, expected = (f"{k.device_kind} in {k.folder}" for k in (file.environment, key))
        raise BaselineError(
            f"{path}: document.environment: the file says {actual} and {'.'.join(names)}, its "
            f"place says {expected} and {case.file_name}"
        )


def lock_for_writing(baselines_folder: Path) -> contextlib.ExitStack:
    """Create the baselines folder if it is missing, and lock it against other sessions that write.

    Returns the lock as a context manager, whose exit releases the lock. Raises BaselineError if the
    folder cannot be locked, or if another session holds the lock for too long.
    """
    where = f"{baselines_folder}: it cannot be locked for writing: "
    with storage.reraise_as(BaselineError, storage.LockedError, OSError, where=where):
        return storage.lock_folder(baselines_folder)


def check_folder(
    baselines_folder: Path,
    *,
    may_be_missing: bool = False,
    must_be_writable: bool = False,
    missing_hint: str = "",
) -> None:
    """Raise BaselineError unless `baselines_folder` is a folder that can be read.

    Args:
        baselines_folder: The folder of baselines.
        may_be_missing: Whether the folder may be missing, because writing a baseline makes it.
        must_be_writable: Whether the folder must also be writable, because the session writes
            baselines.
        missing_hint: The end of the message if the folder is missing.

    Raises:
        BaselineError: The folder is missing or cannot be read.
        OutputError: The folder must be writable, and is not.

    """
    with storage.reraise_as(BaselineError, storage.InputError, where=f"{baselines_folder}: "):
        storage.check_readable_folder(baselines_folder)
    if not (may_be_missing or baselines_folder.is_dir()):
        raise BaselineError(f"there is no folder {baselines_folder}{missing_hint}")
    if must_be_writable:
        storage.check_writable_folder(baselines_folder)


def check_writable(baselines_folder: Path, cases: Iterable[tuple[EnvironmentKey, Case]]) -> None:
    """Raise BaselineError or OutputError unless the file of each case can be written or created.

    `baselines_folder` is the folder of baselines. `cases` has each case with its machine.
    """
    for path in dict.fromkeys(baseline_path(baselines_folder, key, case) for key, case in cases):
        storage.check_writable_folder(path.parent)
        if path_exists(path) and not os.access(path, os.W_OK):
            raise BaselineError(f"{path} cannot be written: no permission")


class BaselineDraft:
    """The baseline files of a folder that a session changes, in memory until `write`."""

    def __init__(self, baselines_folder: Path) -> None:
        self._folder = baselines_folder
        self._files: dict[Path, BaselineFile | None] = {}
        self._changed: dict[Path, None] = {}

    def find(self, key: EnvironmentKey, case: Case) -> tuple[Path, BaselineFile | None]:
        """Return the path of the baseline file of `case` on the machine `key`, and its content.

        The content is None if there is no file. Raises BaselineError if the file is not valid, or
        is for another machine or kind of case.
        """
        path = baseline_path(self._folder, key, case)
        if path not in self._files:
            self._files[path] = read_matching_file(path, key, case)
        return path, self._files[path]

    def put(self, path: Path, file: BaselineFile) -> None:
        """Set the content that `write` will write to `path`; without baselines, remove the file."""
        self._files[path] = file if file.baselines else None
        self._changed[path] = None

    def write(self) -> None:
        """Write every file that `put` changed, and remove the files that have no baselines left."""
        if self._changed:
            storage.remove_half_written_files(self._folder)
        for path in self._changed:
            if file := self._files[path]:
                storage.write(path, baselines_text(file))
            else:
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_draft(baselines_folder: Path) -> Iterator[BaselineDraft]:
    """Yield a BaselineDraft of the files in a folder, and write the draft after the ``with`` block.

    The folder is locked until the draft is written, and other sessions that write wait for the
    lock. Nothing is written if the block raises an exception. Raises OSError if a file cannot be
    written, and BaselineError if another session holds the lock for too long.
    """
    with lock_for_writing(baselines_folder):
        draft = BaselineDraft(baselines_folder)
        yield draft
        draft.write()


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineSearchResult:
    """The result of the search for the baseline of a case.

    Attributes:
        baseline: The baseline; None if the case has no baseline.
        other_strategy: Another strategy with which the same case has a baseline. Empty if there is
            no such strategy, or if `baseline` is not None.

    """

    baseline: Baseline | None = None
    other_strategy: str = ""


def find_baseline(
    baselines_folder: Path,
    key: EnvironmentKey,
    case: Case,
    *,
    artificial_memory_limit_bytes: int | None = None,
) -> BaselineSearchResult:
    """Find the baseline of `case` on the machine `key`, in the folder `baselines_folder`.

    With `artificial_memory_limit_bytes`, a baseline that ran out of memory under the same limit is
    preferred to the baseline without a limit. Raises BaselineError for a file that is not valid.
    """
    path = baseline_path(baselines_folder, key, case)
    document = read_matching_file(path, key, case)
    if document is not None:
        baseline = document.find(case, artificial_memory_limit_bytes) or document.find(case)
        if baseline is not None:
            return BaselineSearchResult(baseline=baseline)
    return BaselineSearchResult(other_strategy=_find_other_strategy(baselines_folder, key, case))


def read_framework_files(
    baselines_folder: Path, key: EnvironmentKey, framework: str
) -> tuple[BaselineFile, ...]:
    """Read all baseline files of `framework` on the machine `key` below `baselines_folder`.

    Raises BaselineError for a file that is not valid, and for a copy of a file under another name,
    because the copied times would count twice.
    """
    stored = []
    for path in sorted((baselines_folder / key.folder).glob(f"{framework}.*.*.json")):
        file = read_baselines(path)
        for baseline in file.baselines:
            if path.name != baseline.case.file_name:
                raise BaselineError(
                    f"{path}: expected the name {baseline.case.file_name} for what it holds; "
                    "move a copy out of the folder of baselines"
                )
        stored.append(file)
    return tuple(stored)


def frameworks_with_baselines(baselines_folder: Path, key: EnvironmentKey) -> frozenset[str]:
    """Return the names of the frameworks that have baselines on the machine `key`.

    Raises BaselineError if the folder of the machine exists and cannot be read.
    """
    folder = baselines_folder / key.folder
    with storage.reraise_as(BaselineError, storage.InputError, where=f"{folder}: "):
        storage.check_readable_folder(folder)
    return _framework_names(folder.glob("*.*.*.json"))


def newest_baseline_dates_by_rank_count(
    baselines_folder: Path, key: EnvironmentKey
) -> dict[int, str]:
    """Return, for other numbers of ranks on this kind of device, the date of the newest baseline.

    The result maps a number of ranks to a date such as ``2026-01-31``. An environment with the
    ranks of `key` counts as another one if only one of the two lets ranks share a device
    (`shared`). The result is empty if `key` itself has baselines. Raises BaselineError for a file
    that cannot be read.
    """
    if frameworks_with_baselines(baselines_folder, key):
        return {}
    dates: dict[int, str] = {}
    for path in sorted((baselines_folder / key.folder.parent).glob("*/*.*.*.json")):
        if _framework_names([path]):
            contents = read_baselines(path)
            ranks, is_shared = contents.environment.ranks, contents.environment.shared
            if (ranks, is_shared) != (key.ranks, key.shared):
                newest = (baseline.date for baseline in contents.baselines)
                dates[ranks] = max(dates.get(ranks, ""), *newest)
    return dates


def all_frameworks_with_baselines(baselines_folder: Path) -> frozenset[str]:
    """Return the names of the frameworks that have baselines of at least one machine."""
    return _framework_names(baselines_folder.glob("*/*/*.*.*.json"))


# A framework, a collective (or all collectives of a program), and a strategy.
_FILE_NAME_PATTERN = re.compile(r"([^.]+)\.(?:program\.all|(?!all\.)[^.]+)\.([^.]+)\.json")


def _framework_names(paths: Iterable[Path]) -> frozenset[str]:
    """Return the names of the frameworks of those `paths` that are names of baseline files."""
    matches = (_FILE_NAME_PATTERN.fullmatch(path.name) for path in paths)
    return frozenset(match[1] for match in matches if match) - {_PUBLISHED_PREFIX}


def _find_other_strategy(baselines_folder: Path, key: EnvironmentKey, case: Case) -> str:
    """Return another strategy with which the same case has a baseline; "" if there is none."""
    folder = baselines_folder / key.folder
    for path in sorted(folder.glob(f"{case.file_stem}.*.json")):
        match = _FILE_NAME_PATTERN.fullmatch(path.name)
        other = replace(case, strategy=match[2]) if match else case
        document = read_matching_file(path, key, other) if other != case else None
        if document is not None and document.find(other):
            return other.strategy
    return ""


# The name of a published file begins with this word instead of a framework.
_PUBLISHED_PREFIX = "published"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedTable:
    """A table of bandwidths that others published for a kind of device and a number of ranks.

    Attributes:
        document: The kind of document: ``busbw published figures``.
        version: The version of the format.
        source: The publication.
        slice: The name of the slice of TPU chips.
        device_kind: The name of the chip.
        ranks: The number of ranks.
        collective: The collective.
        algbw_gb_per_s: The algbw in GB/s (10^9 bytes/s) of each payload, by the text of the payload
            such as ``1M``; None if the case ran out of memory.
        doubts: Why the bandwidth of a payload may be wrong, by the text of the payload.

    """

    document: str
    version: int
    source: str
    slice: str
    device_kind: str
    ranks: int
    collective: str
    algbw_gb_per_s: Mapping[Annotated[str, check_payload_text], Positive | None]
    doubts: Mapping[str, str] = field(default_factory=dict)


def read_published_table(path: Path) -> PublishedTable:
    """Read the table of published bandwidths in the file `path`.

    Raises BaselineError if the file cannot be read or is not valid.
    """
    return read_document(path, PublishedTable, "busbw published figures", "write it anew")


def find_published_bandwidth(
    baselines_folder: Path, key: EnvironmentKey, case: Case
) -> PublishedBandwidth | None:
    """Find the published bandwidth of the collective and payload of `case` on the machine `key`.

    Only the kind of device and the number of ranks of `key` count. Returns None if
    `baselines_folder`, the folder of baselines, has no such bandwidth. Raises BaselineError for a
    table that is not valid.
    """
    folder = baselines_folder / slug(key.device_kind) / f"{key.ranks}r"
    payload = payload_text(case.payload_bytes)
    for path in sorted(folder.glob(f"{_PUBLISHED_PREFIX}.{case.collective}.*.json")):
        table = read_published_table(path)
        if payload in table.algbw_gb_per_s:
            return PublishedBandwidth(
                source=f"{table.slice}: {table.source}",
                oom=table.algbw_gb_per_s[payload] is None,
                algbw_gb_per_s=table.algbw_gb_per_s[payload],
                doubt=table.doubts.get(payload, ""),
            )
    return None

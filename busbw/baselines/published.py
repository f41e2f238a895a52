"""Reference figures that somebody else published, by another method: shown, never judged.

They lie beside the baselines as ``<device kind>/<ranks>r/published.<collective>.<name>.json``;
no update touches them. The schema is its own: a bandwidth per payload, with its source.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from busbw import wire
from busbw.model import Case, CaseKey, EnvironmentKey, Reference

from .document import BaselineError, Status, check_payload, read_json
from .key import slug

SCHEMA = 1

# A thousand times what any link or memory moves.
_MOST_GB_PER_S = 1e7


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedEntry:
    """One line: algbw in GB/s (10^9), or that the source says out of memory."""

    payload: str
    payload_bytes: int
    status: Status
    algbw_gb_per_s: float | None = None
    doubt: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """One published table for one device kind and number of ranks."""

    schema: int
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
        table = wire.from_json(Published, read_json(path), "document")
    except wire.WireError as error:
        raise BaselineError(f"{path}: {error}") from error
    if table.schema != SCHEMA:
        raise BaselineError(f"{path}: document.schema: expected {SCHEMA}, got {table.schema}")
    wanted = (slug(table.device_kind), f"{table.ranks}r", table.collective)
    named = CaseKey.of_file(path.name)
    of_name = named.collective if named is not None else ""
    place = (path.parent.parent.name, path.parent.name, of_name)
    if wanted != place:
        raise BaselineError(f"{path}: the table is for {' '.join(wanted)}, its place for another")
    seen = set()
    for index, entry in enumerate(table.entries):
        where = f"{path}: document.entries[{index}]"
        _check_entry(entry, where)
        if entry.payload_bytes in seen:
            raise BaselineError(f"{where}: a second entry for {entry.payload}")
        seen.add(entry.payload_bytes)
    return table


def _check_entry(entry: PublishedEntry, where: str) -> None:
    try:
        check_payload(entry.payload, entry.payload_bytes, where)
    except wire.WireError as error:
        raise BaselineError(str(error)) from error
    if (entry.algbw_gb_per_s is None) is (entry.status is Status.OK):
        raise BaselineError(f"{where}.algbw_gb_per_s: expected with the status 'ok' and only then")
    if entry.algbw_gb_per_s is not None and not 0 < entry.algbw_gb_per_s <= _MOST_GB_PER_S:
        raise BaselineError(
            f"{where}.algbw_gb_per_s: expected GB/s above 0, up to {_MOST_GB_PER_S:g}"
        )


def find_published(root: Path, key: EnvironmentKey, case: Case) -> Reference | None:
    """What was published for this payload on this device kind and number of ranks, if anything."""
    folder = root / slug(key.device_kind) / f"{key.ranks}r"
    for path in sorted(folder.glob(f"published.{case.collective}.*.json")):
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

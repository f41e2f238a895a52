"""Read files of optimized HLO, as XLA writes them to the folder of ``--xla_dump_to``."""

from __future__ import annotations

import re
from pathlib import Path

from busbw import storage, wire

from .worker_inventory import check_complete, collectives_in_hlo, is_scheduled, ranks_in_head
from .worker_values import CollectiveUses, ProgramError

_BRACED = re.compile(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{}]*\})\}")
_RANK = re.compile(r"\d+")


def read_hlo_file(path: Path, ranks: int | None = None) -> CollectiveUses:
    """Return the collectives of a file of optimized HLO, which may be compressed with gzip.

    `ranks` is the number of ranks that the user expects; None to read it from the file. Raises
    InputError if the file cannot be read. Raises ProgramError if the file is not optimized HLO, is
    incomplete, contains several programs, or is compiled for another number of ranks.
    """
    # Editors on Windows write a byte order mark first, and end lines with two characters.
    content = storage.gunzip(storage.read(path))
    text = content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    conflict = wire.git_leftover_text(content)
    if conflict:
        raise ProgramError(f"line {conflict}")
    head = text.partition("\n")[0]
    if not head.startswith("HloModule ") or not is_scheduled(head):
        raise ProgramError(
            f"its first line is {head[:60]!r}; expected optimized HLO as text, with HloModule and "
            "is_scheduled=true, such as module_0000.NAME.cpu_after_optimizations.txt"
        )
    if "\nHloModule " in text:
        raise ProgramError("it has several programs; expected a file for each")
    uses = collectives_in_hlo(text, ranks=ranks)
    check_complete(text)
    compiled_for = ranks_in_head(head) or max((use.ranks * use.groups for use in uses), default=0)
    # Permutes and groups of unequal sizes may leave ranks out, so that their ranks cannot be
    # counted. But the highest rank that they name exists.
    named = (int(rank) for part in _BRACED.findall(text) for rank in _RANK.findall(part))
    highest = max(named, default=-1) + 1
    if ranks and (compiled_for not in (0, ranks) or highest > ranks):
        most = max(compiled_for, highest)
        raise ProgramError(f"it is compiled for {most} ranks, expected {ranks} (--ranks)")
    return uses

"""Files of optimized HLO: what XLA writes to the folder of ``--xla_dump_to``."""

from __future__ import annotations

import re
from pathlib import Path

from busbw import storage, wire

from .worker_inventory import check_whole, is_scheduled, ranks_in, uses_of
from .worker_values import ProgramError, Uses

_BRACED = re.compile(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{}]*\})\}")
_RANK = re.compile(r"\d+")


def read(path: Path, ranks: int | None = None) -> Uses:
    """Return the collectives of the optimized HLO in a file, which gzip may have packed.

    `ranks` is how many take part, where the session says it. Raises ProgramError or InputError for
    anything else, with what to do.
    """
    # Editors on Windows write a mark first and end lines with two characters.
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
    uses = uses_of(text, ranks=ranks)
    check_whole(text)
    groups = max((use.ranks * use.groups for use in uses), default=0)
    compiled_for = ranks_in(head) or groups
    # Permutes and groups of unequal sizes may leave ranks out, but name none that is not there.
    named = (int(rank) for part in _BRACED.findall(text) for rank in _RANK.findall(part))
    highest = max(named, default=-1) + 1
    if ranks and (compiled_for not in (0, ranks) or highest > ranks):
        most = max(compiled_for, highest)
        raise ProgramError(f"it is compiled for {most} ranks, expected {ranks} (--ranks)")
    return uses

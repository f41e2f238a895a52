"""Files of optimized HLO: what XLA writes to the folder of ``--xla_dump_to``."""

from __future__ import annotations

from pathlib import Path

from busbw import storage

from .worker_inventory import uses_of
from .worker_values import ProgramError, Uses

_IS_SCHEDULED = "is_scheduled=true"


def read(path: Path, ranks: int | None = None) -> Uses:
    """Return the collectives of the optimized HLO in a file, which gzip may have packed.

    `ranks` is how many take part, where the session says it. Raises ProgramError or InputError for
    anything else, with what to do.
    """
    # Editors on Windows write a mark first and end lines with two characters.
    content = storage.unpacked(storage.read(path))
    text = content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    head = text.partition("\n")[0]
    if not head.startswith("HloModule ") or _IS_SCHEDULED not in head:
        raise ProgramError(
            f"its first line is {head[:60]!r}; expected optimized HLO as text, with HloModule and "
            f"{_IS_SCHEDULED}, such as module_0000.NAME.cpu_after_optimizations.txt"
        )
    if "\nHloModule " in text:
        raise ProgramError("it has several programs; expected a file for each")
    uses = uses_of(text, ranks=ranks)
    most = max((use.ranks * use.groups for use in uses), default=0)
    if ranks and most not in (0, ranks):
        raise ProgramError(f"it is compiled for {most} ranks, expected {ranks} (--ranks)")
    return uses

"""Files of optimized HLO: what XLA writes to the folder of ``--xla_dump_to``.

Such a folder has more files than the one that can be read, which is named.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path

from busbw import storage
from busbw.model.program import Uses
from busbw.program import inventory
from busbw.program.hlo import ProgramError

_GZIP = b"\x1f\x8b"
_HLO = "HloModule"
_IS_SCHEDULED = "is_scheduled=true"
_NEXT_PROGRAM = re.compile(r"^HloModule ", re.MULTILINE)
_LONGEST_START = 60


def read(path: Path, ranks: int | None = None) -> Uses:
    """Return the collectives of the optimized HLO in a file, which may be compressed by gzip.

    `ranks` is how many take part, where the session says it. Raises ProgramError or InputError for
    anything else, with what to do.
    """
    text = _text_of(path)
    head = text.partition("\n")[0]
    if f", {_IS_SCHEDULED}" not in head:
        raise ProgramError(
            f"it is HLO from before the end of optimization: its first line lacks {_IS_SCHEDULED}. "
            "The compiler adds and combines collectives later. Expected what is compiled, such as "
            f"{_instead_of(path)}"
        )
    programs = len(_NEXT_PROGRAM.findall(text))
    if programs > 1:
        raise ProgramError(f"it has {programs} programs; expected a file for each")
    named = inventory.ranks_of(text)
    if named is not None and ranks not in (None, named):
        raise ProgramError(f"it is compiled for {named} ranks, expected {ranks} (--ranks)")
    try:
        return inventory.read(text, ranks=ranks)
    except inventory.UnknownRanksError as error:
        raise ProgramError(f"{error}. Name the number: --ranks=N") from error


def _text_of(path: Path) -> str:
    content = storage.read(path)
    if content.startswith(_GZIP):
        content = _decompressed(content)
    # Editors on Windows write a mark first and end lines with two characters.
    beginning = content[:1024].decode("utf-8-sig", errors="replace").lstrip()
    if beginning.startswith(_HLO):
        text = content.decode("utf-8-sig", errors="replace").lstrip()
        return text.replace("\r\n", "\n")
    line = beginning.partition("\n")[0][:_LONGEST_START]
    raise ProgramError(
        f"it begins with {line!r}; expected optimized HLO as text, such as {_instead_of(path)}"
    )


def _decompressed(content: bytes) -> bytes:
    """Decompress gzip. Raises InputError for a damaged file and for more than MOST_BYTES bytes."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            text = file.read(storage.MOST_BYTES + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise storage.InputError(f"is a damaged gzip file: {error}") from error
    if len(text) > storage.MOST_BYTES:
        raise storage.TooLargeError(f"has more than {storage.MOST_BYTES} bytes when decompressed")
    return text


def _instead_of(path: Path) -> str:
    """Return the file of the same program that can be read, or how such files are called."""
    module = re.match(r"(module_\d+)\.", path.name)
    there = sorted(path.parent.glob(f"{module[1]}.*after_optimizations.txt")) if module else []
    return there[0].name if there else "module_0000.NAME.cpu_after_optimizations.txt"

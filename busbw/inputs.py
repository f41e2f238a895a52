"""Input files, read whole: only regular files of a bounded size, so that reading cannot block.

A folder, a pipe or a device in place of a file is refused before it is read. Knows no format.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

# The results of all cases with a hundred launches each are a fifth of it.
MOST_BYTES = 128 * 2**20

_AT_ONCE = 2**20


class InputError(ValueError):
    """A file that cannot be read; the message says why, without its name."""


class TooLargeError(InputError):
    """A file of more bytes than are read."""


def content(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """All bytes of the regular file at `path`; raises InputError for anything else.

    Nothing of a file of more than `most_bytes` is kept, whatever the file system says of its size.
    """
    try:
        # Opening a pipe for reading would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise InputError(_reason(error)) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"is {_kind(found.st_mode)}; accepted is a file")
        if found.st_size > most_bytes:
            raise TooLargeError(f"has {found.st_size} bytes; accepted are {most_bytes}")
        return _read(descriptor, found.st_size, most_bytes)
    except OSError as error:
        raise InputError(_reason(error)) from error
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, most_bytes: int) -> bytes:
    """In one piece if the size is known, so that the content is not held twice."""
    parts, count = [], 0
    while part := os.read(descriptor, max(_AT_ONCE, size - count + 1)):
        count += len(part)
        if count > most_bytes:
            raise TooLargeError(f"has more than {most_bytes} bytes; accepted are {most_bytes}")
        parts.append(part)
    return b"".join(parts)


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"

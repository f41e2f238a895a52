"""Limits of the operating system that busbw can reach, and how a user raises each of them."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping

from busbw import storage

_SPACE = "free some space, or set TMPDIR to a folder on another disk"
_REMEDIES: Mapping[int | None, str] = {
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close files of other programs: the whole machine has too many open",
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EAGAIN: "raise the limit on processes (ulimit -u, pids.max of a container)",
    errno.ENOMEM: "free some memory, or raise the limit on it (ulimit -v)",
}


@contextlib.contextmanager
def explained_as(kind: type[Exception]) -> Iterator[None]:
    """Turn an OSError that says that a limit was reached into a `kind` that says how to raise it.

    Other errors are raised as they are.
    """
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno)
        if remedy is None:
            raise
        raise kind(f"{storage.error_text(error)}; {remedy}") from error

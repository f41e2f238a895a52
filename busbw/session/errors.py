"""Errors that a user can repair, such as wrong options and limits of the operating system."""

from __future__ import annotations

import contextlib
import errno
import functools
from collections.abc import Iterator, Mapping

from busbw import storage


class UsageError(Exception):
    """Options, files or devices that cannot be used; the message says what was expected."""


# As `with` and as a decorator: turns exceptions of the given types into UsageErrors.
usage_error = functools.partial(storage.reraise_as, UsageError)

_SPACE = "free some space, or set TMPDIR to a folder on another disk"
# What the user can do about an error at a limit of the operating system, by its number.
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
def raise_with_remedy(error_type: type[Exception]) -> Iterator[None]:
    """Turn an OSError at a limit of the operating system into an `error_type` with the remedy.

    The remedy is, for example, how to raise the limit. Other errors are raised unchanged.
    """
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno)
        if remedy is None:
            raise
        raise error_type(f"{storage.error_text(error)}; {remedy}") from error

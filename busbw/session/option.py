"""An option of sessions, and the errors that a user can repair, such as a wrong option.

An Option has its arguments for argparse, and its relations to settings and other options.
"""

from __future__ import annotations

import contextlib
import errno
import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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


# The titles of the groups of options, in the order of --help.
MEASURE = "busbw: what to measure, and which files to write"
COMPARE = "busbw: what to compare with, and when to fail"
HOSTS = "busbw: several processes and hosts"
GROUPS = (MEASURE, COMPARE, HOSTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """An option ``--name``.

    Attributes:
        name: The name, with underscores in place of hyphens.
        arguments: The keyword arguments of argparse's `add_argument`.
        group: The title of its group in --help.
        has_setting: Whether the ini file may set its value, as ``busbw_name``.
        needs: The name of an option that must have a value, too; empty without such an option.
        excludes: The names of the options that must not be passed with it. Their settings do not
            count.
        because: Why it excludes options, as a relative clause such as ``which compiles``.

    """

    name: str
    arguments: Mapping[str, Any]
    group: str = MEASURE
    has_setting: bool = False
    needs: str = ""
    excludes: tuple[str, ...] = ()
    because: str = ""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def is_repeatable(self) -> bool:
        """Whether the option may be passed several times."""
        return self.arguments.get("action") == "append"


def check_combination(passed_options: Collection[Option], names: Collection[str]) -> None:
    """Raise UsageError if a passed option excludes another passed option, or lacks a needed option.

    `names` are the names of the options that have a value, on the command line or in the ini file.
    """
    for option in passed_options:
        for other in passed_options:
            if other.name in option.excludes:
                raise UsageError(f"{other.flag}: not with {option.flag}, {option.because}")
        if option.needs and option.needs not in names:
            raise UsageError(f"{option.flag}: only with --{option.needs.replace('_', '-')}")

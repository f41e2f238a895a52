"""An option of sessions, and the errors that a user can repair, such as a wrong option.

An Option has its arguments for argparse, and its relations to settings and other options.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from busbw import storage


class UsageError(Exception):
    """Options, files or devices that cannot be used; the message says what was expected."""


# As `with` and as a decorator: turns exceptions of the given types into UsageErrors.
usage_error = functools.partial(storage.reraise_as, UsageError)

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

"""An option of sessions: what argparse takes, and what argparse does not know of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import UsageError

# The titles of the groups of options, in the order of --help.
MEASURE = "busbw: what to measure, and which files to write"
COMPARE = "busbw: what to compare with, and when to fail"
HOSTS = "busbw: several processes and hosts"
GROUPS = (MEASURE, COMPARE, HOSTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """``--name`` with its `arguments` of argparse and, if it `has_setting`, ``busbw_name``.

    An option that `needs` another option is an error without it, and so is each of the options that
    it `excludes`, whose settings do not count; `because` says why, in a relative clause. An option
    that `is_output` writes or accepts something, and is left out of the command that repeats a
    session.
    """

    name: str
    arguments: Mapping[str, Any]
    group: str = MEASURE
    has_setting: bool = False
    is_output: bool = False
    needs: str = ""
    excludes: tuple[str, ...] = ()
    because: str = ""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def is_repeated(self) -> bool:
        return self.arguments.get("action") == "append"


def check_combination(passed: Collection[Option], names: Collection[str]) -> None:
    """Raise UsageError if options of the command line exclude or lack each other.

    `names` are the options that have a value, on the command line or in the ini file.
    """
    for option in passed:
        for other in passed:
            if other.name in option.excludes:
                raise UsageError(f"{other.flag}: not with {option.flag}, {option.because}")
        if option.needs and option.needs not in names:
            raise UsageError(f"{option.flag}: only with --{option.needs.replace('_', '-')}")

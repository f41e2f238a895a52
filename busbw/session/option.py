"""One option: its spelling, group, help and default; and what a session was given for all of them.

The plugin walks the declarations for its command line and its ini settings; a session is
driven by a `Given`, whoever read the command line.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import forms

# The titles of the groups of options, in the order in which they are shown.
MEASURE = "busbw: what to measure, and which files to write"
COMPARE = "busbw: what to compare with, and when to fail"
HOSTS = "busbw: several processes and hosts"
GROUPS = (MEASURE, COMPARE, HOSTS)

# An empty text comes of a variable of a shell that is not set: it does not mean the default.
_NO_VALUE = "expected a value, got an empty text"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """``--name`` and, with `ini`, a setting ``busbw_name``.

    `parse` makes its value of a text that is not empty, or raises ValueError with what is accepted.
    A `flag` has no value, one with a `const` need have none, and one that is `repeated` has one a
    line in the ini file. `choices` are shown in place of a `metavar`. One that `needs` another
    option is an error without that, and options that it `excludes` may not be on the command line
    with it.
    A command that repeats a session has the options that `repeats` says: those that write files
    would accept or overwrite something.
    """

    name: str
    help: str
    group: str = MEASURE
    parse: Callable[[str], Any] = str
    default: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    repeated: bool = False
    flag: bool = False
    const: str = ""
    ini: bool = True
    repeats: bool = True
    needs: str = ""
    excludes: tuple[str, ...] = ()

    @property
    def flag_name(self) -> str:
        return forms.flag(self.name)

    @property
    def arguments(self) -> dict[str, Any]:
        """What argparse is told of it, but for its type and its default."""
        default = f" (default: {self.default})" if self.default else ""
        found: dict[str, Any] = {"help": self.help + default}
        if self.flag:
            return {**found, "action": "store_true"}
        found["metavar"] = self.metavar or f"{{{','.join(self.choices)}}}"
        if self.choices and self.parse is str:
            found["choices"] = self.choices
        if self.repeated:
            found["action"] = "append"
        return {**found, "nargs": "?", "const": self.const} if self.const else found

    def found(self, given: Given) -> Any:
        """What is given on the command line, else in the ini file; None for nothing.

        A list of both where it is repeated. Raises ValueError for an empty text.
        """
        value = given.options[self.name]
        if self.repeated:
            return [*given.ini[self.name], *(value or ())]
        if not self.is_text:
            return value
        if value is not None and not str(value or "").strip() and not self.default:
            raise ValueError(f"{self.flag_name}: {_NO_VALUE}")
        text = str(given.ini[self.name] if value is None else value).strip()
        return text if text or self.default else None

    def value(self, found: Any) -> Any:
        """What `parse` makes of it. Raises ValueError with the option and what is accepted."""
        if self.flag or found is None:
            return bool(found) if self.flag else None
        parsed = functools.partial(forms.checked, self.name, self.parse)
        return [parsed(text or "") for text in found] if self.repeated else parsed(found)

    @property
    def is_text(self) -> bool:
        """Whether it has one value, which the ini file may have too."""
        return self.ini and not (self.repeated or self.flag)


def takes(metavar: str, parse: Callable[[str], Any] = str, default: str = "") -> dict[str, Any]:
    """What the value of an option is."""
    return {"metavar": metavar, "parse": parse, "default": default}


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What a session was given: by an option's name the value of the command line, and of the ini.

    `root` is the folder that baselines and a history are relative to, `keyword` the selection of
    cases by name, `outputs` the files of others that are written, by the option that names them.
    `selection` are words of a command line that select the same tests.
    """

    options: Mapping[str, Any]
    ini: Mapping[str, Any]
    root: Path
    keyword: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    selection: tuple[str, ...] = ()

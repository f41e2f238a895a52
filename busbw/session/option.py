"""Declare an option of sessions, parse the values of options, and report errors of the user.

An Option has its arguments for argparse, and its relations to settings and other options. Functions
such as `parse_payloads` are the types of these arguments. A UsageError is an error that a user can
repair, such as a wrong option.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from busbw import metrics, storage
from busbw.frameworks import FRAMEWORKS
from busbw.model.launch import Injection
from busbw.model.machine import canonical_mesh, mesh_shape
from busbw.model.words import Device, InjectionKind, wrong_choice_text


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


T = TypeVar("T")

_SECONDS_PER_UNIT = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_DELAY = re.compile(r"(\d+(?:\.\d+)?)(%|us|ms|s)")
_RATIO = re.compile(r"(\d+(?:\.\d+)?)([%x])")


def argument_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make a type for argparse of a function that raises ValueError for a wrong text.

    The type raises ArgumentTypeError instead, because argparse shows its message. The type also
    refuses an empty text, which a shell passes for a variable that is not set.
    """

    def parse_argument(text: str) -> T:
        if not text.strip():
            raise argparse.ArgumentTypeError("expected a value, got an empty text")
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_argument


parse_path = argument_type(Path)
parse_text = argument_type(str)
parse_payload = argument_type(metrics.parse_payload)
parse_payloads = argument_type(metrics.parse_payloads)


def expand_home(text: str) -> Path:
    """Return `text` as a path, in which the user's home directory replaces a leading ``~``.

    Raises ValueError if the user has no home directory, neither by HOME nor by the system's list of
    users.
    """
    path = os.path.expanduser(text)
    if path == "~" or path.startswith("~/"):
        raise ValueError(f"{text}: this user has no home directory; expected HOME to be set")
    return Path(path)


def cache_folder(text: str = "") -> Path:
    """Return the absolute path of the cache folder `text`.

    An empty text means the folder ``busbw`` in the user's cache folder. Raises ValueError if a home
    directory is needed and the user has none.
    """
    default = os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "busbw")
    return expand_home(text or default).absolute()


def whole_number_type(minimum: int) -> Callable[[str], int]:
    """Return the type of an argument that is a whole number of at least `minimum`."""

    @argument_type
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < minimum:
            raise ValueError(f"expected a whole number from {minimum}, got {text!r}")
        return int(text)

    return parse


def parse_launches(text: str) -> int:
    """Return the number of launches that `text` says; 0 for ``auto``."""
    return 0 if text == "auto" else whole_number_type(1)(text)


@argument_type
def parse_seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e7:
        raise ValueError(f"expected a number of seconds above 0, got {text!r}")
    return number


@argument_type
def parse_ratio(text: str) -> float:
    """Return a loss as the ratio of two times, such as 1.25 for ``25%`` and for ``1.25x``."""
    match = _RATIO.fullmatch(text)
    number = float(match[1]) if match else 0.0
    value = 1 + number / 100 if match and match[2] == "%" else number
    if not 1 < value < 1e3:
        raise ValueError(f"expected a loss such as 25%, or a ratio such as 1.25x, got {text!r}")
    return value


def word_list_type(choices: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return the type of an argument that is a comma list of words from `choices`.

    Its value has each word once.
    """

    @argument_type
    def parse(text: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
        for word in words:
            if word not in choices:
                raise ValueError(wrong_choice_text(word, choices))
        return words

    return parse


@argument_type
def parse_device(text: str) -> Device | None:
    """Return the requested class of device, None for ``auto``."""
    if text not in ("auto", *Device):
        raise ValueError(wrong_choice_text(text, ("auto", *(device.value for device in Device))))
    return None if text == "auto" else Device(text)


@argument_type
def parse_frameworks(text: str) -> tuple[str, ...]:
    """Return the requested frameworks, an empty tuple for ``auto``."""
    return () if text == "auto" else word_list_type(tuple(FRAMEWORKS))(text)


@argument_type
def parse_mesh(text: str) -> str:
    """Return the canonical text of a mesh, which must have two ranks or more."""
    if math.prod(mesh_shape(text)) < 2:
        raise ValueError(f"expected a mesh of two ranks or more, got {text!r}")
    return canonical_mesh(text)


@argument_type
def parse_python(text: str) -> tuple[str, str]:
    """Return the framework and the interpreter's absolute path in ``FRAMEWORK=INTERPRETER``."""
    framework, equals, name = text.partition("=")
    if not equals or framework not in FRAMEWORKS:
        names = ", ".join(FRAMEWORKS)
        raise ValueError(f"expected FRAMEWORK=INTERPRETER with one of {names}, got {text[:60]!r}")
    return framework, _find_interpreter(name)


@argument_type
def parse_reference(text: str) -> dict[str, str]:
    """Return the interpreters of --against by framework.

    If `text` names no framework, all frameworks have the same interpreter. The result is empty for
    ``baseline``, which means the locked stack.
    """
    framework, equals, name = text.partition("=")
    if text == "baseline":
        return {}
    if not equals or framework not in FRAMEWORKS:
        return dict.fromkeys(FRAMEWORKS, _find_interpreter(text))
    return {framework: _find_interpreter(name)}


def _find_interpreter(name: str) -> str:
    """Return the absolute path of an interpreter, which is a path or is found on PATH.

    Raises ValueError if there is no such executable file.
    """
    path = shutil.which(os.path.expanduser(name))
    if path is None:
        raise ValueError(f"{name!r} is not an executable program")
    return os.path.abspath(path)


@argument_type
def parse_variable(text: str) -> tuple[str, str]:
    """Return the name and the value of the environment variable in ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"expected NAME=VALUE, got {text!r}")
    return name, value


@argument_type
def parse_injection(text: str) -> Injection:
    """Return the Injection that ``delay:15%``, ``delay:20us@1M+4M`` or ``memory:1G`` requests."""
    request, _, sizes = text.partition("@")
    kind, _, amount = request.partition(":")
    if kind not in list(InjectionKind):
        raise ValueError(wrong_choice_text(kind, [extra.value for extra in InjectionKind]))
    sizes_bytes = tuple(metrics.parse_payload(size) for size in sizes.split("+")) if sizes else ()
    if kind == InjectionKind.MEMORY:
        return Injection(
            extra=InjectionKind.MEMORY,
            limit_bytes=metrics.parse_payload(amount),
            payloads=sizes_bytes,
        )
    match = _DELAY.fullmatch(amount)
    if match is None or float(match[1]) <= 0:
        raise ValueError(
            f"expected delay:AMOUNT, with an AMOUNT such as 15%, 20us or 1ms, got {text[:60]!r}"
        )
    number, unit = float(match[1]), match[2]
    if unit == "%":
        return Injection(extra=InjectionKind.DELAY, share=number / 100, payloads=sizes_bytes)
    return Injection(
        extra=InjectionKind.DELAY, seconds=number * _SECONDS_PER_UNIT[unit], payloads=sizes_bytes
    )

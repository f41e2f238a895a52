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
Number = TypeVar("Number", int, float)


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
    where = f"{text}: this user has no home directory; expected HOME to be set: "
    with storage.reraise_as(ValueError, RuntimeError, where=where):
        return Path(text).expanduser()


def cache_folder(text: str = "") -> Path:
    """Return the absolute path of the cache folder `text`.

    An empty text means the folder ``busbw`` in the user's cache folder. Raises ValueError if a home
    directory is needed and the user has none.
    """
    default = os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "busbw")
    return expand_home(text or default).absolute()


def number_type(convert: Callable[[str], Number], minimum: Number) -> Callable[[str], Number]:
    """Return the type of an argument that is a number from `minimum` to 10 million.

    `convert` is int or float.
    """

    @argument_type
    def parse(text: str) -> Number:
        number = convert(text)
        if not minimum <= number <= 1e7:
            raise ValueError(f"expected a number from {minimum} to 10000000, got {text!r}")
        return number

    return parse


parse_seconds = number_type(float, 1e-9)


def parse_launches_or_auto(text: str) -> int:
    """Return the number of launches that `text` says; 0 for ``auto``."""
    return 0 if text == "auto" else number_type(int, 1)(text)


def _parse_share(text: str) -> float:
    """Return a percentage as a share, such as 0.25 for ``25%``."""
    share = float(text.removesuffix("%")) / 100
    if not (text.endswith("%") and 0 < share < 1e3):
        raise ValueError(f"expected a percentage such as 25%, got {text!r}")
    return share


@argument_type
def parse_ratio(text: str) -> float:
    """Return a loss as the ratio of two times, such as 1.25 for ``25%``."""
    return 1 + _parse_share(text)


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
def parse_interpreters(text: str) -> dict[str, str]:
    """Return the interpreters of frameworks, by framework, in ``FRAMEWORK=INTERPRETER``.

    If `text` names no framework, all frameworks have the same interpreter.
    """
    framework, equals, name = text.partition("=")
    if not equals or framework not in FRAMEWORKS:
        return dict.fromkeys(FRAMEWORKS, _find_interpreter(text))
    return {framework: _find_interpreter(name)}


def parse_reference(text: str) -> dict[str, str]:
    """Return the interpreters of --against; none for ``baseline``, which is the locked stack."""
    return {} if text == "baseline" else parse_interpreters(text)


def _find_interpreter(name: str) -> str:
    """Return the absolute path of an interpreter, which is a path or is found on PATH.

    Raises ValueError if there is no such executable file.
    """
    path = shutil.which(os.path.expanduser(name))
    if path is None:
        raise ValueError(f"{name!r} is not an executable program")
    return os.path.abspath(path)


@argument_type
def parse_variable(text: str) -> dict[str, str]:
    """Return the value of the environment variable in ``NAME=VALUE``, by its name."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"expected NAME=VALUE, got {text!r}")
    return {name: value}


@argument_type
def parse_injection(text: str) -> Injection:
    """Return the Injection that ``delay:15%``, ``delay:20%@1M+4M`` or ``memory:1G`` requests."""
    request, _, sizes = text.partition("@")
    kind, _, amount = request.partition(":")
    if kind not in list(InjectionKind):
        raise ValueError(wrong_choice_text(kind, [extra.value for extra in InjectionKind]))
    is_delay = kind == InjectionKind.DELAY
    return Injection(
        extra=InjectionKind(kind),
        share=_parse_share(amount) if is_delay else None,
        limit_bytes=None if is_delay else metrics.parse_payload(amount),
        payloads=tuple(metrics.parse_payload(size) for size in sizes.split("+")) if sizes else (),
    )

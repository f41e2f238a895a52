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
from busbw.model import words
from busbw.model.launch import Injection
from busbw.model.machine import canonical_mesh, mesh_shape
from busbw.model.words import DeviceClass, wrong_choice_text


class UsageError(Exception):
    """An error that the user can repair: an option, a file or a device cannot be used.

    The message says which value was expected.
    """


# As `with` and as a decorator: turns exceptions of the given types into UsageErrors.
as_usage_error = functools.partial(storage.reraise_as, UsageError)

# The titles of the groups of options, in the order of --help.
MEASURE_GROUP = "busbw: what to measure, and which files to write"
COMPARE_GROUP = "busbw: what to compare with, and when to fail"
HOSTS_GROUP = "busbw: several processes and hosts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """The declaration of an option of sessions, such as ``--time-budget``.

    Attributes:
        name: The name of the option, with underscores in place of hyphens.
        arguments: The keyword arguments of argparse's `add_argument`.
        group: The title of the group of options in --help that lists the option.
        has_setting: Whether a line ``busbw_NAME`` of the ini file may set the option.
        needs: The name of another option that must have a value if this option is passed; empty if
            no other option is needed.
        excludes: The names of options that must not be passed together with this option. The
            settings of these options in the ini file are ignored.
        exclusion_reason: The reason for `excludes`, as the end of an error message about this
            option, such as ``which compiles``.

    """

    name: str
    arguments: Mapping[str, Any]
    group: str = MEASURE_GROUP
    has_setting: bool = False
    needs: str = ""
    excludes: tuple[str, ...] = ()
    exclusion_reason: str = ""

    @property
    def flag(self) -> str:
        """The option as users write it on the command line, such as ``--time-budget``."""
        return "--" + self.name.replace("_", "-")


def check_combination(passed_options: Collection[Option], names: Collection[str]) -> None:
    """Raise UsageError if an option excludes another option, or needs an option without a value.

    `passed_options` are the options on the command line, which are checked. `names` are the names
    of all options that have a value, on the command line or in the ini file.
    """
    for option in passed_options:
        for other in passed_options:
            if other.name in option.excludes:
                raise UsageError(f"{other.flag}: not with {option.flag}, {option.exclusion_reason}")
        if option.needs and option.needs not in names:
            raise UsageError(f"{option.flag}: only with --{option.needs.replace('_', '-')}")


T = TypeVar("T")
Number = TypeVar("Number", int, float)


def argument_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return `parse` as a function that argparse accepts as the ``type`` of an option.

    If `parse` raises ValueError, the returned function raises ArgumentTypeError with the same
    message, because argparse shows only such messages. The returned function also refuses an empty
    text, which a shell passes for a variable that is not set. Usable as a decorator.
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
parse_payload = argument_type(words.parse_payload)
parse_payloads = argument_type(metrics.parse_payloads)


def expand_home(text: str) -> Path:
    """Return `text` as a path, in which the user's home directory replaces a leading ``~``.

    Raises ValueError if the home directory is unknown: HOME is not set, and the system's list of
    users has no home directory of the user.
    """
    where = f"{text}: this user has no home directory; expected HOME to be set: "
    with storage.reraise_as(ValueError, RuntimeError, where=where):
        return Path(text).expanduser()


def cache_folder(text: str = "") -> Path:
    """Return the absolute path of busbw's cache folder, which need not exist.

    `text` is the path that the user chose. An empty text means the folder ``busbw`` in
    XDG_CACHE_HOME or, if this variable is not set, in ``~/.cache``. Raises ValueError if the path
    begins with ``~`` and the user has no home directory.
    """
    default = os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "busbw")
    return expand_home(text or default).absolute()


def number_type(convert: Callable[[str], Number], minimum: Number) -> Callable[[str], Number]:
    """Return a function for argparse that parses a number from `minimum` to 10 million.

    `convert` is int for whole numbers, or float.
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
    """Return the number of launches in `text`, which is 1 or more; return 0 for ``auto``."""
    return 0 if text == "auto" else number_type(int, 1)(text)


def _parse_percentage(text: str) -> float:
    """Return the percentage `text` as a fraction, such as 0.25 for ``25%``.

    Raises ValueError if `text` is no percentage above 0 % and below 100000 %.
    """
    share = float(text.removesuffix("%")) / 100
    if not (text.endswith("%") and 0 < share < 1e3):
        raise ValueError(f"expected a percentage such as 25%, got {text!r}")
    return share


@argument_type
def parse_loss_ratio(text: str) -> float:
    """Return the ratio of the slower time to the expected time for a loss: 1.25 for ``25%``."""
    return 1 + _parse_percentage(text)


def word_list_type(choices: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return a function for argparse that parses a list of words from `choices`, such as ``a,b``.

    The parsed tuple has each word once, in the order of the text. The function raises
    ArgumentTypeError for a word that is not in `choices`.
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
def parse_device(text: str) -> DeviceClass | None:
    """Return the class of device that `text` names, such as ``gpu``; None for ``auto``."""
    if text not in ("auto", *DeviceClass):
        raise ValueError(
            wrong_choice_text(text, ("auto", *(device.value for device in DeviceClass)))
        )
    return None if text == "auto" else DeviceClass(text)


@argument_type
def parse_frameworks(text: str) -> tuple[str, ...]:
    """Return the frameworks in a text such as ``jax,fake``; an empty tuple for ``auto``."""
    return () if text == "auto" else word_list_type(tuple(FRAMEWORKS))(text)


@argument_type
def parse_mesh(text: str) -> str:
    """Return the mesh `text` in the usual form, such as ``2x4`` or ``hosts:2,devices:4``.

    Named axes get a fixed order, and spaces are removed. Raises ArgumentTypeError for a text that
    is no mesh, and for a mesh of a single rank.
    """
    if math.prod(mesh_shape(text)) < 2:
        raise ValueError(f"expected a mesh of two ranks or more, got {text!r}")
    return canonical_mesh(text)


@argument_type
def parse_interpreters(text: str) -> dict[str, str]:
    """Return the path of the interpreter that `text` names, by framework.

    A text such as ``jax=~/venv/bin/python`` names the interpreter of one framework. A text such as
    ``~/venv/bin/python`` names the interpreter of all frameworks.
    """
    framework, equals, name = text.partition("=")
    if not equals or framework not in FRAMEWORKS:
        return dict.fromkeys(FRAMEWORKS, _find_interpreter(text))
    return {framework: _find_interpreter(name)}


def parse_reference_interpreters(text: str) -> dict[str, str]:
    """Return the paths of the reference's interpreters in a value of --against, by framework.

    The result is empty for ``baseline``, which means the stack that is locked with the baselines.
    """
    return {} if text == "baseline" else parse_interpreters(text)


def _find_interpreter(name: str) -> str:
    """Return the absolute path of the interpreter `name`, a path or a command on PATH.

    Raises ValueError if no such executable file exists.
    """
    path = shutil.which(os.path.expanduser(name))
    if path is None:
        raise ValueError(f"{name!r} is not an executable program")
    return os.path.abspath(path)


@argument_type
def parse_environment_variable(text: str) -> dict[str, str]:
    """Return the environment variable ``NAME=VALUE`` as the dictionary ``{NAME: VALUE}``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"expected NAME=VALUE, got {text!r}")
    return {name: value}


@argument_type
def parse_injection(text: str) -> Injection:
    """Return the Injection (a loss on purpose) that a text such as ``delay:20%@1M+4M`` requests.

    ``delay:20%`` adds a delay of 20 % to every collective, ``memory:1G`` limits the memory, and
    ``@1M+4M`` applies the loss only to cases with these payloads.
    """
    request, _, sizes = text.partition("@")
    kind, _, amount = request.partition(":")
    if kind not in ("delay", "memory"):
        raise ValueError(wrong_choice_text(kind, ("delay", "memory")))
    is_delay = kind == "delay"
    return Injection(
        share=_parse_percentage(amount) if is_delay else None,
        limit_bytes=None if is_delay else words.parse_payload(amount),
        payloads=tuple(words.parse_payload(size) for size in sizes.split("+")) if sizes else (),
    )

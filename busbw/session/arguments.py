"""The types of arguments, for argparse: a text to its value, or ArgumentTypeError."""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from busbw.frameworks import FRAMEWORKS
from busbw.metrics import parse_payload, parse_payloads
from busbw.model.launch import Injection
from busbw.model.machine import extents_of, mesh_text
from busbw.model.words import Device, Extra, refusal

T = TypeVar("T")

# The value of --against that means the stack that is locked with the baselines.
BASELINE = "baseline"

_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_DELAY = re.compile(r"(\d+(?:\.\d+)?)(%|us|ms|s)")
_RATIO = re.compile(r"(\d+(?:\.\d+)?)([%x])")


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return `parse` with its ValueError as the ArgumentTypeError whose message argparse shows.

    An empty text, such as that of a shell variable that is not set, is no value.
    """

    def parse_argument(text: str) -> T:
        if not text.strip():
            raise argparse.ArgumentTypeError("expected a value, got an empty text")
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_argument


parse_path = argument(Path)
parse_text = argument(str)
payload = argument(parse_payload)
payloads = argument(parse_payloads)


def expand_home(text: str) -> Path:
    """Return the path `text`, with the user's home directory for its first ``~``.

    Raises ValueError if the user has no home directory: no HOME and no entry of the system.
    """
    path = os.path.expanduser(text)
    if path == "~" or path.startswith("~/"):
        raise ValueError(f"{text}: this user has no home directory; expected HOME to be set")
    return Path(path)


def cache_folder(text: str = "") -> Path | None:
    """Return where to cache: None for ``none``, and the user's cache folder for an empty text.

    Raises ValueError if the user has neither XDG_CACHE_HOME nor a home directory.
    """
    usual = os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "busbw")
    return None if text == "none" else expand_home(text or usual).absolute()


def whole_number(minimum: int) -> Callable[[str], int]:
    """Return the type of a whole number from `minimum`."""

    @argument
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < minimum:
            raise ValueError(f"expected a whole number from {minimum}, got {text!r}")
        return int(text)

    return parse


@argument
def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e7:
        raise ValueError(f"expected a number of seconds above 0, got {text!r}")
    return number


@argument
def ratio(text: str) -> float:
    """Return a ratio above 1, such as 1.25 for ``25%`` and for ``1.25x``."""
    match = _RATIO.fullmatch(text)
    number = float(match[1]) if match else 0.0
    value = 1 + number / 100 if match and match[2] == "%" else number
    if not 1 < value < 1e3:
        raise ValueError(f"expected a loss such as 25%, or a ratio such as 1.25x, got {text!r}")
    return value


def word_list(choices: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return the type of a comma list of words, each of which is kept once."""

    @argument
    def parse(text: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
        for word in words:
            if word not in choices:
                raise ValueError(refusal(word, choices))
        return words

    return parse


@argument
def device(text: str) -> Device | None:
    """Return a class of device, None for ``auto``."""
    if text not in ("auto", *Device):
        raise ValueError(refusal(text, ("auto", *(device.value for device in Device))))
    return None if text == "auto" else Device(text)


@argument
def frameworks(text: str) -> tuple[str, ...]:
    """Return the names of frameworks; none for ``auto``."""
    return () if text == "auto" else word_list(tuple(FRAMEWORKS))(text)


@argument
def mesh(text: str) -> str:
    """Return the canonical text of a mesh of two ranks or more."""
    if math.prod(extents_of(text)) < 2:
        raise ValueError(f"expected a mesh of two ranks or more, got {text!r}")
    return mesh_text(text)


@argument
def python(text: str) -> tuple[str, str]:
    """Return a framework and its interpreter."""
    framework, equals, name = text.partition("=")
    if not equals or framework not in FRAMEWORKS:
        names = ", ".join(FRAMEWORKS)
        raise ValueError(f"expected FRAMEWORK=INTERPRETER with one of {names}, got {text[:60]!r}")
    return framework, _interpreter(name)


@argument
def reference(text: str) -> dict[str, str]:
    """Return interpreters by framework: one for all if none is named, none for ``baseline``."""
    framework, equals, name = text.partition("=")
    if text == BASELINE:
        return {}
    if not equals or framework not in FRAMEWORKS:
        return dict.fromkeys(FRAMEWORKS, _interpreter(text))
    return {framework: _interpreter(name)}


def _interpreter(name: str) -> str:
    """Return the absolute path of an interpreter."""
    path = shutil.which(os.path.expanduser(name))
    if path is None:
        raise ValueError(f"{name!r} is not an executable program")
    return os.path.abspath(path)


@argument
def variable(text: str) -> tuple[str, str]:
    """Return the name and the value of an environment variable."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"expected NAME=VALUE, got {text!r}")
    return name, value


@argument
def injection(text: str) -> Injection:
    """Return what ``delay:15%``, ``delay:20us@1M+4M`` or ``memory:1G`` injects."""
    request, _, sizes = text.partition("@")
    kind, _, amount = request.partition(":")
    if kind not in list(Extra):
        raise ValueError(refusal(kind, [extra.value for extra in Extra]))
    sizes_bytes = tuple(parse_payload(size) for size in sizes.split("+")) if sizes else ()
    if kind == Extra.MEMORY:
        limit_bytes = parse_payload(amount)
        return Injection(extra=Extra.MEMORY, limit_bytes=limit_bytes, payloads=sizes_bytes)
    match = _DELAY.fullmatch(amount)
    if match is None or float(match[1]) <= 0:
        raise ValueError(
            f"expected delay:AMOUNT, with an AMOUNT such as 15%, 20us or 1ms, got {text[:60]!r}"
        )
    number, unit = float(match[1]), match[2]
    if unit == "%":
        return Injection(extra=Extra.DELAY, share=number / 100, payloads=sizes_bytes)
    return Injection(extra=Extra.DELAY, seconds=number * _UNITS_S[unit], payloads=sizes_bytes)

"""Parsers for the values of options; which option has which is in `options`.

A wrong value raises ValueError with what is accepted; nothing is started here.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from busbw import metrics, storage
from busbw.frameworks import FRAMEWORKS
from busbw.model.launch import Injection
from busbw.model.machine import extents_of
from busbw.model.words import Device, Extra, refusal

from . import homes, tpu_slice

T = TypeVar("T")

# What --against takes in place of an interpreter.
BASELINE = "baseline"

# What --hosts takes in place of names, and lists for nothing.
SLICE, NONE = "tpu", "none"

# As ssh takes it: no option of ssh, and nothing that a shell would read.
_HOST = re.compile(r"(?!-)[A-Za-z0-9_.@:%/\[\]-]{1,255}")
_PYTHON = re.compile(r"(?!-)[A-Za-z0-9_.~+/-]{1,500}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def checked(name: str, parse: Callable[[str], T], text: str) -> T:
    """What `parse` makes of `text`; its ValueError names the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{flag(name)}: {error}") from error


def whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise ValueError(f"{text!r}; accepted is a whole number from {least} on")
        return int(text)

    return parse


def seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < 1e7:
        raise ValueError(f"{text!r}; accepted is a number of seconds above 0")
    return found


_DURATIONS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Seconds of ``90s``, ``10m`` or ``8h``."""
    try:
        return seconds(text[:-1]) * _DURATIONS_S[text[-1:]]
    except (ValueError, KeyError) as error:
        raise ValueError(f"{text!r}; accepted is a duration such as 90s, 10m or 8h") from error


def ratio(text: str) -> float:
    """A ratio above 1, such as 1.25 for ``25%`` and ``1.25x``."""
    try:
        number = float(text[:-1])
    except ValueError:
        number = math.nan
    found = {"%": 1 + number / 100, "x": number}.get(text[-1:], math.nan)
    if not 1 < found < 1e3:
        raise ValueError(f"{text!r}; accepted is a loss such as 25%, or a ratio such as 1.25x")
    return found


def word(accepted: Sequence[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in accepted:
            raise ValueError(refusal(text, accepted))
        return text

    return parse


def words(accepted: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    one = word(accepted)
    return lambda text: tuple(dict.fromkeys(one(each.strip()) for each in text.split(",")))


def reason(text: str) -> str:
    if not text.strip():
        raise ValueError(f"{text!r}; accepted is a reason in words")
    return " ".join(text.split())


def path(text: str) -> Path:
    return homes.expanded(text)


STRATEGIES = tuple(dict.fromkeys(name for one in FRAMEWORKS.values() for name in one.strategies))


def device(text: str) -> Device | None:
    """None for whatever is attached."""
    found = word(("auto", *(one.value for one in Device)))(text)
    return None if found == "auto" else Device(found)


def frameworks(text: str) -> tuple[str, ...]:
    """Nothing for those installed."""
    return () if text == "auto" else words(tuple(FRAMEWORKS))(text)


def ranks(text: str) -> int | None:
    """None for all that are there."""
    if text == "all":
        return None
    if text.isdecimal() and int(text) < 2:
        raise ValueError(f"{text}: fewer than two ranks are not a collective")
    return whole(2)(text)


def mesh(text: str) -> tuple[int, ...]:
    """Its extents; a single rank is no mesh."""
    extents = extents_of(text)
    if math.prod(extents) < 2:
        raise ValueError(f"{text}: fewer than two ranks are not a collective")
    return extents


def python(text: str) -> tuple[str, str]:
    """A framework and its interpreter."""
    framework, equals, name = text.partition("=")
    if not equals or framework not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise ValueError(f"expected FRAMEWORK=INTERPRETER with one of {known}, got {text[:60]!r}")
    return framework, _program(name)


def reference(text: str) -> dict[str, str]:
    """Interpreters by framework, all the same if none is named; none for the baseline's."""
    framework, equals, name = text.partition("=")
    if text == BASELINE:
        return {}
    if not equals or framework not in FRAMEWORKS:
        return dict.fromkeys(FRAMEWORKS, _program(text))
    return {framework: _program(name)}


def _program(name: str) -> str:
    """The absolute path of an interpreter."""
    found = shutil.which(os.path.expanduser(name))
    if found is None:
        raise ValueError(f"{name!r} is not an executable program")
    return os.path.abspath(found)


def variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r}; accepted is NAME=VALUE")
    return name, value


def hosts(text: str) -> tuple[str, ...]:
    if text == SLICE:
        found, source = tpu_slice.hosts_of_slice(os.environ)
        if not found:
            raise ValueError(f"{SLICE}: this host is none of a TPU slice, as {source} says")
    elif text.startswith("@"):
        found = _hosts_in(text[1:])
    else:
        found = tuple(one.strip() for one in text.split(","))
    for host, times in Counter(found).items():
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host[:100]!r} is no host; accepted is what ssh connects to")
        if times > 1:
            raise ValueError(
                f"{host!r} is there twice; accepted is each host once, and as many processes on "
                "each as --processes shares out"
            )
    return found


def _hosts_in(name: str) -> tuple[str, ...]:
    """A host in each line of a file; what follows a ``#`` is a comment."""
    try:
        lines = storage.read(homes.expanded(name)).decode().splitlines()
    except (storage.InputError, UnicodeDecodeError) as error:
        words = error if isinstance(error, storage.InputError) else "no text"
        raise ValueError(f"@{name}: {words}") from error
    found = tuple(host for line in lines if (host := line.partition("#")[0].strip()))
    if not found:
        raise ValueError(f"@{name}: no hosts; accepted is one in each line")
    return found


def cluster(text: str) -> str:
    """Return the address of a Dask scheduler, or the path of its scheduler file."""
    scheme, separator, place = text.partition("://")
    if not separator:
        return str(homes.expanded(text).absolute())
    if scheme not in ("tcp", "tls") or not place:
        raise ValueError(f"{text!r}; expected tcp://HOST:PORT, tls://HOST:PORT or a file")
    return text


def host_python(text: str) -> str:
    if not _PYTHON.fullmatch(text):
        raise ValueError(f"{text!r}; accepted is a command or a path, without spaces")
    return text


def variables(text: str) -> frozenset[str]:
    names = frozenset(one.strip() for one in text.split(",")) if text != NONE else frozenset()
    for name in sorted(names):
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is no variable; accepted are names, or {NONE}")
    return names


_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(%|us|ms|s)")


def injection(text: str) -> Injection:
    asked, _, sizes = text.partition("@")
    kind, _, amount = asked.partition(":")
    kinds = [extra.value for extra in Extra]
    if kind not in kinds:
        raise ValueError(refusal(kind, kinds))
    payloads = tuple(metrics.parse_payload(size) for size in sizes.split("+")) if sizes else ()
    extra = Extra(kind)
    if extra is Extra.MEMORY:
        return Injection(extra=extra, limit_bytes=metrics.parse_payload(amount), payloads=payloads)
    match = _AMOUNT.fullmatch(amount)
    if match is None or float(match[1]) <= 0:
        raise ValueError(
            f"{text[:60]!r}; expected delay:AMOUNT, where AMOUNT is for example 15%, 20us or 1ms"
        )
    number, unit = float(match[1]), match[2]
    if unit == "%":
        return Injection(extra=extra, share=number / 100, payloads=payloads)
    return Injection(extra=extra, seconds=number * _UNITS_S[unit], payloads=payloads)

"""Sizes, rates, times and counts as people write them on a command line, to bytes and seconds.

Strict: a unit is written out, and what no machine has is refused. Each raises ValueError with the
sentence that the user reads.
"""

from __future__ import annotations

import re

_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_FACTORS |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SIZE = re.compile(_NUMBER + r" ?(?:([kKMGT]|[KMGT]i)?B)?")
_RATE = re.compile(_NUMBER + r" ?([kKMGT]|[KMGT]i)?(B|bit|b)/?p?s")
_TIME = re.compile(_NUMBER + r" ?(s|ms|us)?")
_COUNT = re.compile(_NUMBER + r"([kKMG])?")

_MOST_BYTES = 1e15
_MOST_RATE = 1e15
_MOST_S = 1e6
_MOST_RANKS = 1_000_000

SIZE_GRAMMAR = "bytes with a unit such as 553.36MB (10^6), 25MiB (2^20) or 4096B"
RATE_GRAMMAR = "a rate with a unit such as 125MB/s, 16GB/s, 63GiB/s or 10Gbit/s"
TIME_GRAMMAR = "a time such as 0.55s, 12ms or 5us"


def size(text: str) -> int:
    """Bytes, whole ones and at least one. MB is 10^6, MiB 2^20; without a unit, bytes."""
    match = _matched(_SIZE, text, f"is no size; accepted are {SIZE_GRAMMAR}")
    value = float(match[1]) * _FACTORS[match[2] or ""]
    return round(_within(value, 1, _MOST_BYTES, text, "bytes"))


def rate(text: str) -> float:
    """Bytes per second, above 0; an eighth of bits."""
    match = _matched(_RATE, text, f"is no rate; accepted is {RATE_GRAMMAR}")
    value = float(match[1]) * _FACTORS[match[2] or ""]
    return _within(value if match[3] == "B" else value / 8, 1, _MOST_RATE, text, "bytes/s")


def duration(text: str) -> float:
    """Seconds, 0 or more; without a unit, seconds."""
    match = _matched(_TIME, text, f"is no time; accepted is {TIME_GRAMMAR}")
    value = float(match[1]) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[match[2] or "s"]
    return _within(value, 0, _MOST_S, text, "seconds")


def positive_duration(text: str) -> float:
    """Seconds, above 0."""
    value = duration(text)
    if value == 0:
        raise ValueError(f"{text!r}; accepted is a time above 0")
    return value


def count(text: str) -> int:
    """How many parameters: a whole number, or one such as 138.36M (M is 10^6)."""
    match = _COUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}; accepted is a number of parameters such as 25583592 or 138M")
    value = float(match[1]) * _FACTORS[match[2] or ""]
    return round(_within(value, 1, _MOST_BYTES, text, "parameters"))


def ranks(text: str) -> int:
    """A whole number from 2 on."""
    return _whole(text, least=2)


def whole_numbers(text: str) -> tuple[int, ...]:
    """Whole numbers from 1 on in a comma list, without repeats."""
    return tuple(dict.fromkeys(_whole(part, least=1) for part in text.split(",")))


def share(text: str) -> float:
    """0 to 1, both included."""
    match = re.fullmatch(_NUMBER, text)
    if match is None or not 0 <= float(match[1]) <= 1:
        raise ValueError(f"{text!r}; accepted is a share from 0 to 1")
    return float(match[1])


def efficiency(text: str) -> float:
    """Between 0 and 1: nothing reaches 1 but a step that communicates nothing."""
    value = share(text)
    if not 0 < value < 1:
        raise ValueError(f"{text!r}; accepted is an efficiency above 0 and below 1")
    return value


def _whole(text: str, *, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= _MOST_RANKS:
        raise ValueError(f"{text!r}; accepted is a whole number from {least} to {_MOST_RANKS}")
    return int(text)


def _matched(pattern: re.Pattern[str], text: str, refusal: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} {refusal}")
    return match


def _within(value: float, least: float, most: float, text: str, unit: str) -> float:
    if not least <= value <= most:
        raise ValueError(f"{text!r} is absurd; accepted are {least:g} to {most:g} {unit}")
    return value

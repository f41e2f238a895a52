"""Sizes, rates, times, counts and shares from the command line, with their units written out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.model.limits import MOST_BYTES, MOST_S

_MOST_RANKS = 1_000_000

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) ?(.*)")
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PREFIXES |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _prefixed(units: Mapping[str, float]) -> dict[str, float]:
    return {f"{p}{unit}": by * each for p, by in _PREFIXES.items() for unit, each in units.items()}


@dataclass(frozen=True, slots=True)
class Quantity:
    """Numbers with a unit, from `least` to `most`; `words` say how they are written."""

    words: str
    units: Mapping[str, float]
    least: float
    most: float

    def __call__(self, text: str) -> float:
        """The number in the base unit. Raises ValueError with the sentence that the user reads."""
        match = _NUMBER.fullmatch(text)
        if match is not None and match[2] in self.units:
            value = float(match[1]) * self.units[match[2]]
            if self.least <= value <= self.most:
                return value
        accepted = f"accepted is {self.words}, from {self.least:g} to {self.most:g}"
        raise ValueError(f"{text!r}; {accepted}")


_BYTES = _prefixed({"B": 1.0}) | {"": 1.0}
_RATES = _prefixed({"B/s": 1, "Bps": 1, "bit/s": 1 / 8, "b/s": 1 / 8, "bps": 1 / 8})
_TIMES = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_COUNTS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
SIZE = Quantity(
    "bytes with a unit such as 553.36MB (10^6), 25MiB (2^20) or 4096B", _BYTES, 1, MOST_BYTES
)
RATE = Quantity("a rate such as 125MB/s, 16GB/s, 63GiB/s or 10Gbit/s", _RATES, 1, 1e15)
TIME = Quantity("a time such as 0.55s, 12ms or 5us", _TIMES, 0, MOST_S)
COMPUTE = Quantity(TIME.words, _TIMES, 1e-9, MOST_S)
COUNT = Quantity("a number of parameters such as 25583592 or 138M", _COUNTS, 1, MOST_BYTES)
SHARE = Quantity("a share", {"": 1.0}, 0, 1)
# Nothing reaches 1 but a step that communicates nothing.
EFFICIENCY = Quantity("an efficiency", {"": 1.0}, 1e-6, 1 - 1e-6)


def whole_numbers(text: str, least: int = 1) -> tuple[int, ...]:
    """Whole numbers in a comma list, without repeats."""
    for part in text.split(","):
        if not re.fullmatch(r"[0-9]{1,7}", part) or not least <= int(part) <= _MOST_RANKS:
            raise ValueError(f"{part!r}; accepted is a whole number from {least} to {_MOST_RANKS}")
    return tuple(dict.fromkeys(map(int, text.split(","))))


def ranks(text: str) -> int:
    """A whole number from 2 on."""
    return whole_numbers(text.replace(",", " "), least=2)[0]

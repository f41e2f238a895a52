"""Texts of options as values. What is wrong raises ValueError with the option and what is accepted.

Each knows one form of text and no option in particular.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def flag(name: str) -> str:
    """The option called `name` as it is written on the command line."""
    return "--" + name.replace("_", "-")


def one_of(name: str, text: str, accepted: Sequence[str]) -> str:
    """`text`, which must be one of the `accepted`."""
    if text not in accepted:
        raise ValueError(f"{flag(name)}: {text!r}; accepted are {', '.join(accepted)}")
    return text


def checked(name: str, parse: Callable[[str], T], text: str) -> T:
    """What `parse` makes of `text`; its ValueError names the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{flag(name)}: {error}") from error


def whole(name: str, text: str, *, least: int) -> int:
    """A whole number of at least `least`."""
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{flag(name)}: {text!r}; accepted is a whole number from {least}")
    return int(text)


def seconds_of(name: str, text: str) -> float:
    """A number of seconds above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e7:
        raise ValueError(f"{flag(name)}: {text!r}; accepted is a number of seconds above 0")
    return seconds


def words_of(name: str, text: str, accepted: Sequence[str]) -> tuple[str, ...]:
    """A comma list of `accepted` words, each once."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in accepted:
            raise ValueError(f"{flag(name)}: {word!r}; accepted are {', '.join(accepted)}")
    return tuple(dict.fromkeys(words))

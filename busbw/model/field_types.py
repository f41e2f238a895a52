"""Types of dataclass fields, such as `Count`, which state the values that a field accepts.

A type such as ``Annotated[int, check]`` contains a check. `wire.from_json` calls the check with the
value of the field. A check raises ValueError, whose message says which values are accepted. Numbers
have upper bounds, because huge numbers would overflow in formulas, or would fill the memory with
lists of ranks.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Sized
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """A function that checks that a number is at least `least` and at most `most`.

    Attributes:
        least: The least accepted number.
        most: The largest accepted number.
        unit: The unit of both numbers in the error message; empty for no unit.
        text: The accepted numbers in words for the error message, such as ``0 or more``. If empty,
            the message names `least` and `most`.

    """

    least: float
    most: float
    unit: str = ""
    text: str = ""

    def __call__(self, value: float) -> None:
        """Raise ValueError if `value` is outside of the range."""
        if not self.least <= value <= self.most:
            span = f"{_number_text(self.least)} to {_number_text(self.most)} {self.unit}".rstrip()
            raise ValueError(f"expected {self.text or span}, got {_number_text(value)}")


def _number_text(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


_MOMENT = "%Y-%m-%dT%H:%M:%SZ"


def moment_text(moment: datetime.datetime) -> str:
    """Return `moment`, which has a time zone, as text in UTC, such as ``2026-01-31T03:00:00Z``."""
    return moment.astimezone(datetime.UTC).strftime(_MOMENT)


@functools.lru_cache(maxsize=1024)
def parse_moment(text: str) -> datetime.datetime:
    """Return the moment that a text such as ``2026-01-31T03:00:00Z`` names, with the time zone UTC.

    Raises ValueError if `text` has any other form.
    """
    with contextlib.suppress(ValueError):
        moment = datetime.datetime.strptime(text, _MOMENT).replace(tzinfo=datetime.UTC)
        # Python also reads digits of other scripts, but a moment has only one text.
        if moment_text(moment) == text:
            return moment
    raise ValueError(f"expected a moment such as 2026-01-31T03:00:00Z, got {text[:60]!r}")


def check_not_empty(values: Sized) -> None:
    """Raise ValueError if `values` is empty."""
    if not values:
        raise ValueError("expected one or more")


def check_date(text: str) -> None:
    """Raise ValueError unless `text` is a date such as ``2026-01-31``."""
    try:
        parse_moment(f"{text}T00:00:00Z")
    except ValueError as error:
        raise ValueError(f"expected a date such as 2026-01-31, got {text[:60]!r}") from error


# The shortest and the longest time that is accepted: no clock is finer, and the longest is eleven
# days.
SHORTEST_S, LONGEST_S = 1e-12, 1e6

MAX_PAYLOAD_BYTES = 10**15

# No memory moves more bytes in a second, and no session takes as many seconds.
_LARGEST = 10**18

Count = Annotated[int, RangeCheck(1, 1_000_000)]
Payload = Annotated[int, RangeCheck(1, MAX_PAYLOAD_BYTES)]
Natural = Annotated[int, RangeCheck(0, _LARGEST, text="0 or more")]
AtLeast1 = Annotated[int, RangeCheck(1, _LARGEST, text="1 or more")]
Positive = Annotated[float, RangeCheck(1 / _LARGEST, _LARGEST, text="a number above 0")]
NotNegative = Annotated[float, RangeCheck(0, _LARGEST, text="a number of 0 or more")]
Seconds = Annotated[float, RangeCheck(SHORTEST_S, LONGEST_S, "seconds")]
Microseconds = Annotated[float, RangeCheck(1e6 * SHORTEST_S, 1e6 * LONGEST_S, "microseconds")]
Moment = Annotated[str, parse_moment]
Date = Annotated[str, check_date]

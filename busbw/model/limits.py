"""What a field accepts, declared at the field and checked wherever a document is read.

Each is called with the value, and raises ValueError that says what is accepted. Beyond these limits
formulas overflow, and lists of ranks fill the memory.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Sized
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`, of a `unit`; `words` say it where figures would not."""

    least: float
    most: float
    unit: str = ""
    words: str = ""

    def __call__(self, value: float) -> None:
        if not self.least <= value <= self.most:
            span = f"{_text(self.least)} to {_text(self.most)} {self.unit}".rstrip()
            raise ValueError(f"expected {self.words or span}, got {_text(value)}")


def _text(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


_MOMENT = "%Y-%m-%dT%H:%M:%SZ"


def moment_text(moment: datetime.datetime) -> str:
    """Write a moment as files have it, such as ``2026-01-31T03:00:00Z``."""
    return moment.astimezone(datetime.UTC).strftime(_MOMENT)


@functools.lru_cache(maxsize=1024)
def moment_of(text: str) -> datetime.datetime:
    """Parse a moment as files have it. Raises ValueError for another form."""
    with contextlib.suppress(ValueError):
        moment = datetime.datetime.strptime(text, _MOMENT).replace(tzinfo=datetime.UTC)
        # Python also reads digits of other scripts, which would name a moment in another way.
        if moment_text(moment) == text:
            return moment
    raise ValueError(f"expected a moment such as 2026-01-31T03:00:00Z, got {text[:60]!r}")


def check_some(values: Sized) -> None:
    if not values:
        raise ValueError("expected one or more")


def check_date(text: str) -> None:
    try:
        moment_of(f"{text}T00:00:00Z")
    except ValueError as error:
        raise ValueError(f"expected a date such as 2026-01-31, got {text[:60]!r}") from error


# No clock is finer than the first; the second is eleven days.
LEAST_S, MOST_S = 1e-12, 1e6

MOST_BYTES = 10**15

# More than any memory moves in a second, and no more than any session takes in seconds.
_MOST = 10**18

Count = Annotated[int, Range(1, 1_000_000)]
Payload = Annotated[int, Range(1, MOST_BYTES)]
Natural = Annotated[int, Range(0, _MOST, words="0 or more")]
AtLeast1 = Annotated[int, Range(1, _MOST, words="1 or more")]
Positive = Annotated[float, Range(1 / _MOST, _MOST, words="a number above 0")]
NotNegative = Annotated[float, Range(0, _MOST, words="a number of 0 or more")]
Seconds = Annotated[float, Range(LEAST_S, MOST_S, "seconds")]
Microseconds = Annotated[float, Range(1e6 * LEAST_S, 1e6 * MOST_S, "microseconds")]
Moment = Annotated[str, moment_of]
Date = Annotated[str, check_date]

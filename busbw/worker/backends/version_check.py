"""How old a framework may be: below that its program could not be proved, or not be run at all.

Text in, one sentence out; standard library only. What an older version calls otherwise is in
`versions` of each framework's folder.
"""

from __future__ import annotations

import re

from busbw.model import FailureKind

from .base import MeasuringError


def check(framework: str, found: str, oldest: str) -> None:
    """Raise MeasuringError UNAVAILABLE where the version `found` comes before `oldest`."""
    if is_before(found, oldest):
        raise MeasuringError(
            FailureKind.UNAVAILABLE,
            f"{framework} {found} is too old: the oldest that busbw measures is {oldest}",
        )


def is_before(found: str, other: str) -> bool:
    """Whether the version `found` comes before `other`; what precedes a release counts as it."""
    return _numbers(found) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()

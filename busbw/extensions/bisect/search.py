"""Search a sequence of releases for the first one that has the problem of the last one."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class Status(enum.StrEnum):
    """Whether a release has the problem, if that can be tested."""

    GOOD = "good"
    BAD = "bad"
    UNTESTABLE = "untestable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The releases that the problem begins between; those in the middle cannot be tested."""

    last_good: str
    first_bad: str
    untestable: tuple[str, ...]


def search(releases: Sequence[str], test: Callable[[str], Status]) -> Span:
    """Return where the problem begins. The first release is good, the last one bad.

    Each release is tested once at most. Other releases are tested in place of an untestable one.
    """
    low, high = 0, len(releases) - 1
    untestable: set[int] = set()
    while candidates := set(range(low + 1, high)) - untestable:
        middle = min(candidates, key=lambda index: (abs(2 * index - low - high), index))
        status = test(releases[middle])
        if status is Status.GOOD:
            low = middle
        elif status is Status.BAD:
            high = middle
        else:
            untestable.add(middle)
    between = tuple(releases[low + 1 : high])
    return Span(last_good=releases[low], first_bad=releases[high], untestable=between)

"""How often a program runs each of its collectives, and what runs while it is in progress."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from busbw.model.program import Use

from .arrays import MOST
from .hlo import Instruction

# Instructions that a collective cannot hide behind, because they compute nothing.
_IDLE = {
    *("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "copy"),
    *("partition-id", "replica-id", "opt-barrier", "iota", "broadcast", "send", "recv"),
}
_IDLE_TARGETS = re.compile(
    r'custom_call_target="(?:PrepareAsyncCall|AllocateBuffer|ConcatBitcast|AsyncCollective)'
)


class Count(NamedTuple):
    """How often equal collectives run, and the operations behind which one of them hides.

    `between` is that of the collective that hides behind the fewest.
    """

    times: int
    between: tuple[tuple[str, int], ...] = ()
    op_name: str = ""

    def with_other(self, other: Count) -> Count:
        fewest = min(self, other, key=lambda count: sum(number for _, number in count.between))
        return self._replace(times=min(self.times + other.times, MOST), between=fewest.between)

    def of(self, use: Use) -> Use:
        return replace(use, times=self.times, between=dict(self.between), op_name=self.op_name)


# The keys have the default of each field that a Count has.
Counts: TypeAlias = "dict[Use, Count]"


def merge(counts: Counts, more: Mapping[Use, Count]) -> None:
    """Add `more` to `counts`."""
    for use, count in more.items():
        counts[use] = counts[use].with_other(count) if use in counts else count


def multiplied(counts: Counts, trips: int | None) -> Counts:
    """Return what a loop runs in so many `trips`, or in one trip where their number is unknown."""
    if trips is None:
        return {replace(use, per_iteration=True): count for use, count in counts.items()}
    if not trips:
        return {}
    return {
        use: count._replace(times=min(count.times * trips, MOST)) for use, count in counts.items()
    }


def taken_at_most(counts: Counts) -> Counts:
    """Return what a branch runs that may not be taken."""
    return {replace(use, at_most=True): count for use, count in counts.items()}


def ended(counts: Counts, meanwhile: Mapping[str, int]) -> Counts:
    """Return started collectives that end after the operations that ran `meanwhile`.

    A collective with no operation between its start and its end is synchronous.
    """
    found: Counts = {}
    for use, count in counts.items():
        if use.asynchronous and meanwhile:
            hidden = count._replace(between=tuple(sorted(meanwhile.items())))
            merge(found, {use: hidden})
        else:
            merge(found, {replace(use, asynchronous=False): count})
    return found


class Work:
    """The operations of a computation that compute something, by their places."""

    def __init__(self, lines: Sequence[Instruction]) -> None:
        self._places: dict[str, list[int]] = {}
        for at, line in enumerate(lines):
            if _works(line):
                self._places.setdefault(line.op, []).append(at)

    def between(self, begin: int, end: int) -> Counter[str]:
        """Count the operations in lines `begin` to `end`, without that of `end`."""
        counts = Counter[str]()
        for op, places in self._places.items():
            number = bisect_left(places, end) - bisect_left(places, begin)
            if number:
                counts[op] = number
        return counts


def _works(line: Instruction) -> bool:
    idle = line.op in _IDLE or line.op.endswith(("-start", "-done", "-update"))
    return not idle and not _IDLE_TARGETS.search(line.text)

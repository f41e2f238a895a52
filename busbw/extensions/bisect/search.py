"""Bisection: which is the first of a row of releases that shows what the last one does.

A release that cannot be tested is stepped around, so that the answer may be a span. Pure: `test`
is what asks.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


class Shown(enum.StrEnum):
    """What a release shows: as the good one, as the bad one, or nothing that can be said."""

    GOOD = "good"
    BAD = "bad"
    UNTESTABLE = "untestable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The last one that is as the good one, and the first one that is as the bad one.

    Those `between` cannot be tested; `tried` is what each showed that was.
    """

    last_good: int
    first_bad: int
    between: tuple[int, ...]
    tried: Mapping[int, Shown]


@dataclass
class Bisection:
    """Of `count` releases in order, of which the first shows GOOD and the last BAD.

    `known` is what an earlier search found; `test` is asked of no release twice.
    """

    count: int
    test: Callable[[int], Shown]
    known: dict[int, Shown] = field(default_factory=dict)

    def run(self) -> Span:
        low, high = 0, self.count - 1
        while (middle := self._next(low, high)) is not None:
            shown = self._shown(middle)
            if shown is Shown.GOOD:
                low = middle
            elif shown is Shown.BAD:
                high = middle
        between = tuple(range(low + 1, high))
        return Span(last_good=low, first_bad=high, between=between, tried=dict(self.known))

    def _next(self, low: int, high: int) -> int | None:
        """The one nearest to the middle that may be testable."""
        middle = (low + high) / 2
        open_ = [at for at in range(low + 1, high) if self.known.get(at) is not Shown.UNTESTABLE]
        return min(open_, key=lambda at: (abs(at - middle), at), default=None)

    def _shown(self, at: int) -> Shown:
        if at not in self.known:
            self.known[at] = self.test(at)
        return self.known[at]


def every(releases: Sequence[int], test: Callable[[int, int], Shown]) -> list[tuple[int, int]]:
    """The steps that change something, each from a release to the next one that can be tested.

    ``test(before, now)`` says what `now` shows beside `before`.
    """
    changed, before = [], releases[0]
    for now in releases[1:]:
        shown = test(before, now)
        if shown is Shown.BAD:
            changed.append((before, now))
        if shown is not Shown.UNTESTABLE:
            before = now
    return changed

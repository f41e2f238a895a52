"""What writing does to baselines, as values: changes, refusals, and a line of the file's history.

A refusal words itself. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.model import Baseline, Case, seconds_text

from .document import Document, Update
from .entries import Occasion

# A year of weekly updates; more is what version control is for.
MOST_UPDATES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One baseline before and after; None: there was none, or there is none any more.

    `lost`: it lost more than the budget, and somebody accepted that with a reason.
    """

    path: Path
    case: Case
    before: Baseline | None
    after: Baseline | None
    lost: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """A baseline that was not written: `wanted` lies beyond what `stored` may lose."""

    path: Path
    case: Case
    stored: Baseline
    wanted: Baseline
    budget: float

    @property
    def text(self) -> str:
        """Which case, its level, its pin, the budget, and what accepts it all the same."""
        return (
            f"{self.case.name}: the baseline was not written: {self._loss}; "
            '--accept-regression "why" accepts it'
        )

    @property
    def _loss(self) -> str:
        pinned_s, level_s = self.stored.pinned_s, self.wanted.level_s
        assert pinned_s is not None
        pin = f"{seconds_text(pinned_s)} pinned on {self.stored.pinned_date}"
        if level_s is None:
            return f"it is out of memory where there was a time, {pin}"
        return (
            f"its level would be {seconds_text(level_s)}, {100 * (level_s / pinned_s - 1):.1f} % "
            f"above the {pin}; the budget is {100 * self.budget:g} %"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """What became of a session's times."""

    changes: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def recorded(document: Document, changes: Sequence[Change], occasion: Occasion) -> Document:
    """`document` with a line of history about `changes`, which are all of its file's."""
    update = Update(
        date=occasion.date,
        commit=occasion.commit,
        entries=len(changes),
        worst_percent=round(max(map(_rise_percent, changes), default=0.0), 2),
        reason=occasion.reason,
        accepted_regression=any(change.lost for change in changes),
    )
    return replace(document, history=(*document.history, update)[-MOST_UPDATES:])


def _rise_percent(change: Change) -> float:
    """By how much the level rose; 0 where there is nothing to compare it with."""
    before, after = change.before, change.after
    if before is None or after is None or before.case.protocol != after.case.protocol:
        return 0.0
    if before.level_s is None or after.level_s is None:
        return 0.0
    return 100 * (after.level_s / before.level_s - 1)

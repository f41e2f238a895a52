"""The collectives of a program, as a compiler left them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from busbw.model.field_types import MOST_BYTES, Count, Natural
from busbw.model.words import payload_text

# Groups such as 0 1, 2 3 and such as 0 2, 1 3.
CONSECUTIVE, STRIDED = "consecutive", "strided"


class ProgramError(ValueError):
    """A text that is no optimized HLO, or that cannot be read to its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """One collective of a program, or several that are equal.

    `kind` is one of `busbw.collectives`, or XLA's own word for another collective; `reduce_op` is
    that of a collective that reduces, such as ``sum``. `payload_bytes` is the larger of what one
    rank puts in and gets, of all `parts` (bytes each) that the compiler combined. The collective
    runs in `groups` groups of `ranks` at the same time, in none where a permute is no ring of each
    group, along `axes` of the program's mesh such as ``data,model``. Where no axes make up the
    groups, `axes` may be CONSECUTIVE or STRIDED ranks; else `axes` is empty, as for all ranks of a
    program without a mesh. Of groups that cannot be read `ranks` is 0.

    A step runs the collective `times` times. With `per_iteration` these are the times of one
    iteration of a loop whose count depends on data; with `at_most` it is in a branch that may not
    be taken. While it is in progress the compiler lets `hidden_by` other operations run; of equal
    collectives that is the least number. `source` is the innermost line of the user's own code,
    such as ``train.py:88``.
    """

    kind: str
    dtype: str
    payload_bytes: Natural
    ranks: Natural
    groups: Natural = 1
    axes: str = ""
    reduce_op: str = ""
    times: Natural = 1
    parts: tuple[Natural, ...] = ()
    hidden_by: Natural = 0
    algorithm: Mapping[str, str] = field(default_factory=dict, hash=False)
    at_most: bool = False
    per_iteration: bool = False
    source: str = ""

    @property
    def asynchronous(self) -> bool:
        """Whether the compiler put operations between the start and the end."""
        return self.hidden_by > 0

    @property
    def where(self) -> str:
        if not self.ranks:
            return "in groups that cannot be read"
        if self.axes in (CONSECUTIVE, STRIDED):
            return f"in {self.axes} groups of {self.ranks}"
        return f"along {self.axes}" if self.axes else f"in groups of {self.ranks}"

    @property
    def name(self) -> str:
        """The collective in words, such as ``all-gather of float32 4M along model``."""
        kind = self.kind.replace("_", "-")
        kind += f" ({self.reduce_op})" if self.reduce_op not in ("", "sum") else ""
        return f"{kind} of {self.dtype} {payload_text(self.payload_bytes)} {self.where}"

    def times_text(self, times: int) -> str:
        """Return a number of times in words: ``24 per step``, ``at most 4 per iteration``."""
        most = "at most " if self.at_most else ""
        return f"{most}{times} per {'iteration' if self.per_iteration else 'step'}"


Uses: TypeAlias = "tuple[Use, ...]"


def merge(uses: Iterable[Use], total: Callable[[int, int], int] = operator.add) -> Uses:
    """Return one Use for all that differ only in `times` and in how much hides them.

    `total` combines two numbers of times.
    """
    merged: dict[Use, Use] = {}
    for use in uses:
        key = replace(use, times=1, hidden_by=min(use.hidden_by, 1))
        other = merged.get(key, replace(use, times=0))
        times = min(total(use.times, other.times), MOST_BYTES)
        merged[key] = replace(use, times=times, hidden_by=min(use.hidden_by, other.hidden_by))
    return tuple(merged.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A value of `name` that changed. `fails` says whether the case fails because of it."""

    name: str
    before: str
    now: str
    fails: bool

    @property
    def text(self) -> str:
        """Such as ``strategy: StrategyND -> StrategyRing``."""
        return f"{self.name}: {self.before or 'none'} -> {self.now or 'none'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramCollectives:
    """All collectives of a program of the user's; `mesh` has the extents of its axes by name."""

    uses: Uses
    mesh: Mapping[str, Count] = field(default_factory=dict)

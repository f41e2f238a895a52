"""Values that describe the collectives of a compiled program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from busbw.model.field_types import MAX_PAYLOAD_BYTES, Count, Natural
from busbw.model.words import payload_text, plural

# The layouts of groups that no mesh axes make up: 0 1, 2 3 is consecutive, and 0 2, 1 3 is strided.
CONSECUTIVE, STRIDED = "consecutive", "strided"


class ProgramError(Exception):
    """An error whose message says why the collectives of a program cannot be listed.

    Possible reasons are a text that is not the complete optimized HLO of a program, and a number of
    ranks that is wrong or unknown.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveUse:
    """A collective that a step of a program runs, or several equal collectives.

    Attributes:
        kind: The name of the collective in busbw, such as ``all_reduce``, or in XLA for a
            collective that busbw does not know.
        dtype: The dtype of the result; several dtypes are joined with ``+``.
        payload_bytes: The larger of a rank's input and output.
        ranks: The number of ranks in each group; 0 if the groups cannot be read.
        groups: The number of groups that run the collective at the same time; 0 for a
            collective-permute that is not a ring in each group.
        axes: The mesh axes along which the groups lie, such as ``data,model``. If no axes match,
            CONSECUTIVE or STRIDED for groups with such ranks, and empty for other groups. Empty,
            too, for a collective over all ranks of a program without a mesh.
        reduce_op: The reduction, such as ``sum``; empty if the collective does not reduce.
        times: How often a step runs the collective.
        hidden_by: The number of operations that run while the collective is in progress, and so
            hide its time. Of several equal collectives the smallest number.
        algorithm: Maps the properties of the algorithm that the compiler publishes to their values.
        at_most: Whether the collective is in a branch that may not be taken, so that `times` is an
            upper bound.
        per_iteration: Whether the collective is in a loop whose number of turns depends on data.
            Then `times` counts the runs in a single turn.
        source: The innermost line of the user's own code, such as ``train.py:88``; empty if it is
            unknown.

    """

    kind: str
    dtype: str
    payload_bytes: Natural
    ranks: Natural
    groups: Natural = 1
    axes: str = ""
    reduce_op: str = ""
    times: Natural = 1
    hidden_by: Natural = 0
    algorithm: Mapping[str, str] = field(default_factory=dict, hash=False)
    at_most: bool = False
    per_iteration: bool = False
    source: str = ""

    @property
    def is_asynchronous(self) -> bool:
        """Whether operations run between the start and the end of the collective."""
        return self.hidden_by > 0

    @property
    def groups_text(self) -> str:
        """The groups in words, such as ``along model`` or ``in groups of 4``."""
        if not self.ranks:
            return "in groups that cannot be read"
        if self.axes in (CONSECUTIVE, STRIDED):
            return f"in {self.axes} groups of {self.ranks}"
        return f"along {self.axes}" if self.axes else f"in groups of {self.ranks}"

    @property
    def group_sizes_text(self) -> str:
        """The number and the size of the groups, such as ``2 groups of 4``."""
        return f"{plural(self.groups, 'group')} of {self.ranks}"

    @property
    def kind_text(self) -> str:
        """The kind in words, such as ``all-reduce (max)``."""
        operation = f" ({self.reduce_op})" if self.reduce_op not in ("", "sum") else ""
        return self.kind.replace("_", "-") + operation

    @property
    def data_text(self) -> str:
        """The dtype and the payload, such as ``float32 4M``."""
        return f"{self.dtype} {payload_text(self.payload_bytes)}"

    @property
    def name(self) -> str:
        """The collective in words, such as ``all-gather of float32 4M along model``."""
        return f"{self.kind_text} of {self.data_text} {self.groups_text}"

    @property
    def times_text(self) -> str:
        """How often the collective runs: ``24 per step``, or ``at most 4 per iteration``."""
        most = "at most " if self.at_most else ""
        return f"{most}{self.times} per {'iteration' if self.per_iteration else 'step'}"


CollectiveUses: TypeAlias = "tuple[CollectiveUse, ...]"


def merge_equal_uses(
    uses: Iterable[CollectiveUse], combine_times: Callable[[int, int], int] = operator.add
) -> CollectiveUses:
    """Return the collectives, with equal collectives merged into a single CollectiveUse.

    Collectives are equal if all their fields are equal except `times` and `hidden_by`. A collective
    with a `hidden_by` of 0 (synchronous) never equals a collective with another `hidden_by`.
    `combine_times` returns the `times` of two equal collectives together: their sum or, for the
    branches of a condition, their maximum.
    """
    merged: dict[CollectiveUse, CollectiveUse] = {}
    for use in uses:
        key = replace(use, times=1, hidden_by=min(use.hidden_by, 1))
        other = merged.get(key, replace(use, times=0))
        times = min(combine_times(use.times, other.times), MAX_PAYLOAD_BYTES)
        merged[key] = replace(use, times=times, hidden_by=min(use.hidden_by, other.hidden_by))
    return tuple(merged.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A difference between two programs in a property or a collective.

    Attributes:
        name: The name of the property, such as ``strategy``, or of the collective.
        before: The text of the property in the old program; empty if the old program has no such
            property.
        now: The text of the property in the new program; empty if the new program has no such
            property.
        fails: Whether the case fails because of the difference.

    """

    name: str
    before: str
    now: str
    fails: bool

    @property
    def text(self) -> str:
        """The difference in words, such as ``strategy: StrategyND -> StrategyRing``."""
        return f"{self.name}: {self.before or 'none'} -> {self.now or 'none'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramCollectives:
    """All collectives of a user's program.

    Attributes:
        uses: The collectives, the largest payload first.
        mesh: Maps the axis names of the program's mesh to their extents; empty if no mesh is known.

    """

    uses: CollectiveUses
    mesh: Mapping[str, Count] = field(default_factory=dict)

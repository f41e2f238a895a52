"""The collectives of a whole program, as a compiler left them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .limits import Count, Natural
from .words import payload_text

# Groups such as 0 1, 2 3 and such as 0 2, 1 3.
CONSECUTIVE, STRIDED = "consecutive", "strided"


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """One collective of a program, or several that are equal.

    `kind` is one of `busbw.collectives`, or XLA's own word for another one; `reduce_op` is that of
    one that reduces, such as ``sum``. `payload_bytes` is the larger of what one rank puts in and
    gets, of all `parts` (bytes each) that were combined in one. It runs in `groups` groups of
    `ranks` at the same time, none where a permute is no ring of each, along `axes` of the program's
    mesh such as ``data,model``. Where no axes make up the groups these may be CONSECUTIVE ranks, or
    STRIDED ones; else `axes` is empty, as for all ranks of a program without a mesh. Of groups that
    cannot be read `ranks` is 0.

    In a step it runs `times` times: in an iteration of a loop whose count depends on data, where
    `per_iteration`; and `at_most`, where it is in a branch that may not be taken. It is
    `asynchronous` where the compiler put operations between its start and its end: `between` counts
    them by kind, of several equal ones where they are fewest. `source` is the innermost line of the
    user's own code, such as ``train.py:88``, and `op_name` what the framework calls the operation.
    """

    kind: str
    dtype: str
    payload_bytes: Natural
    ranks: Natural
    groups: Natural = 1
    axes: str = ""
    reduce_op: str = ""
    times: Count = 1
    parts: tuple[Natural, ...] = ()
    asynchronous: bool = False
    between: Mapping[str, Natural] = field(default_factory=dict, hash=False)
    algorithm: Mapping[str, str] = field(default_factory=dict, hash=False)
    at_most: bool = False
    per_iteration: bool = False
    source: str = ""
    op_name: str = ""

    @property
    def where(self) -> str:
        if not self.ranks:
            return "in groups that cannot be read"
        if self.axes in (CONSECUTIVE, STRIDED):
            return f"in {self.axes} groups of {self.ranks}"
        return f"along {self.axes}" if self.axes else f"in groups of {self.ranks}"

    @property
    def name(self) -> str:
        """Such as ``all-gather of float32 4M along model``."""
        kind = self.kind.replace("_", "-")
        kind += f" ({self.reduce_op})" if self.reduce_op not in ("", "sum") else ""
        return f"{kind} of {self.dtype} {payload_text(self.payload_bytes)} {self.where}"

    def times_text(self, times: int) -> str:
        """That number of `times`, in words: ``24 per step``, ``at most 4 per iteration``."""
        most = "at most " if self.at_most else ""
        return f"{most}{times} per {'iteration' if self.per_iteration else 'step'}"

    @property
    def hidden_by(self) -> int:
        """How many operations run while it does, by the compiler's order."""
        return sum(self.between.values())


Uses = tuple[Use, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramCollectives:
    """All collectives of a program of the user's; `mesh` has the extents of its axes by name."""

    uses: Uses
    mesh: Mapping[str, Count] = field(default_factory=dict)

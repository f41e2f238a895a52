"""Two stacks in turn, so that drift of the machine affects both alike.

A pass is a pair of launches, the reference's and the candidate's. Where two processes can have
the devices open, both are alive at once and take their samples of a case in turn, A B B A;
elsewhere, and for large cases, one launch follows the other, A B B A from pass to pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model.case import Case

from .base import AbstractSchedule, Side, shuffled


@dataclass
class Pairs(AbstractSchedule):
    """All pairs of launches of all cases."""

    name = "pairs"

    def one_pass(self, cases: Sequence[Case]) -> None:
        """Frameworks one after the other; the order is A B, B A, B A, A B, and so on."""
        order = tuple(Side) if self._number % 4 < 2 else tuple(reversed(Side))
        for framework, of_framework in self.frameworks(cases).items():
            ordered = shuffled(of_framework, self._shuffler, large_first=False)
            for sides in [order] if self.shared else [(side,) for side in order]:
                self.launches(framework, ordered, sides, handover=False)

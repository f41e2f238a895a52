"""One cell of the TPU v2 table: what was published there and what was compiled for it.

Values, and questions that they answer; no page and no sentence.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.model import Compiled, Failure, Reference, Topology, bytes_text
from busbw.workloads import Layer

_GIB = 2**30


class Way(str, enum.Enum):
    """How the batch of a training step lies on the cores."""

    SHARED = "shared out"
    DRAWN = "whole, drawn"
    GIVEN = "whole, given"

    @property
    def heading(self) -> str:
        """The same in a sentence's place."""
        return {
            Way.SHARED: "Batch shared out over the cores",
            Way.DRAWN: "Whole batch on each core, drawn there",
            Way.GIVEN: "Whole batch on each core, given in float32",
        }[self]


@dataclass(frozen=True, kw_only=True, slots=True)
class TpuV2Slice:
    """A column of the table; `batch` is the source's, in rows for all cores together."""

    name: str
    topology: Topology
    batch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TpuV2Cell:
    """A payload on a slice. `published` is None where the source has nothing there."""

    part: TpuV2Slice
    payload_bytes: int
    published: Reference | None
    all_reduce: Compiled | Failure
    steps: Mapping[Way, tuple[Layer, Compiled | Failure]]

    @property
    def published_oom(self) -> bool:
        """Whether the source says that memory ran out."""
        return self.published is not None and self.published.oom

    def fits(self, way: Way) -> bool:
        """Whether the compiler takes the step."""
        return isinstance(self.steps[way][1], Compiled)

    def agrees(self, way: Way) -> bool:
        """Whether the step is out of memory where the source says so, and only there."""
        return self.fits(way) is not self.published_oom


def slices_of(cells: Sequence[TpuV2Cell]) -> list[TpuV2Slice]:
    """The table's columns, in order."""
    return list({one.part.name: one.part for one in cells}.values())


def of_slice(cells: Sequence[TpuV2Cell], part: TpuV2Slice) -> list[TpuV2Cell]:
    """One column, smallest payload first."""
    return [one for one in cells if one.part.name == part.name]


def gib_text(count: int | None) -> str:
    """Bytes with two decimals from 1 GiB on, as the limit of 7.48 GiB needs."""
    if count is None:
        return "not said"
    return f"{count / _GIB:.2f} GiB" if count >= _GIB else bytes_text(count)

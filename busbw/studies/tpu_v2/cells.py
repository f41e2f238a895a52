"""Cells of the TPU v2 table: what was published and what was compiled, and what follows, in words.

Every sentence is made from the figures: with another compiler they may differ. No page here.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw import metrics
from busbw.model import Compiled, Failure, Reference, Topology, bytes_text, payload_text, plural
from busbw.report import item, span_text
from busbw.workloads import Layer

_GIB = 2**30

# A larger payload that takes less time by more than this is not explained by noise.
_FALL = 0.9


class Way(str, enum.Enum):
    """How the batch of a training step is distributed over the cores."""

    SHARED = "shared out"
    DRAWN = "whole, drawn"
    GIVEN = "whole, given"

    @property
    def heading(self) -> str:
        """The way as a heading."""
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


def summary_lines(cells: Sequence[TpuV2Cell]) -> list[str]:
    """The page's first section: one item for each thing that was compared."""
    published = [one for one in cells if one.published is not None and one.steps]
    oom = [one for one in published if one.published_oom]
    of_them = f"Of {plural(len(published), 'cell')} that are published and compiled"
    lines = item(f"Out of memory: the source has OOM at {_places(oom)}. {of_them} as a step:")
    for text in (*(_agreement(published, way) for way in Way), *_rows(published)):
        lines += item(text, "  ")
    for text in (*_alone(cells), *_algorithms(cells), *_falls(cells), *_in_steps(cells)):
        lines += item(text)
    return lines


def _agreement(published: Sequence[TpuV2Cell], way: Way) -> str:
    how = way.heading
    if way is Way.DRAWN:
        how += ", as the source does it (see Doubts)"
    differing = [one for one in published if not one.agrees(way)]
    refused = [one for one in published if not one.fits(way)]
    if not differing:
        names = " and ".join(_compiled(one, way) for one in refused)
        return f"{how}: **agrees at all**, OOM at {names or 'none'}."
    shown = " and ".join(_difference(one, way) for one in differing)
    return f"{how}: agrees at {len(published) - len(differing)}, **differs at {shown}**."


def _compiled(cell: TpuV2Cell, way: Way) -> str:
    found = cell.steps[way][1]
    if isinstance(found, Compiled):
        return f"{_label(cell)} (fits in {gib_text(found.peak_bytes)})"
    needed, there = gib_text(found.needed_bytes), gib_text(found.available_bytes)
    return f"{_label(cell)} (needs {needed} of {there})"


def _difference(cell: TpuV2Cell, way: Way) -> str:
    assert cell.published is not None
    rate = cell.published.algbw_gb_per_s
    there = "OOM" if rate is None else f"{rate:.4g} GB/s"
    return f"{_compiled(cell, way).removesuffix(')')}; published: {there})"


def _rows(published: Sequence[TpuV2Cell]) -> Iterator[str]:
    """What fills memory where rows are drawn, and what fits only because they are narrow."""
    for one in published:
        step, found = one.steps[Way.DRAWN]
        values = step.rows * step.inputs
        if isinstance(found, Failure) and one.published_oom:
            yield (
                f"At {_label(one)} the drawn rows are {gib_text(2 * values)} in bfloat16, of "
                f"{gib_text(found.needed_bytes)} needed; weights and gradient are "
                f"{gib_text(one.payload_bytes)} each."
            )
        given = one.steps[Way.GIVEN][1]
        if not isinstance(found, Compiled) or isinstance(given, Compiled):
            continue
        if found.temporary_bytes < 4 * values:
            yield (
                f"At {_label(one)} the step fits because the compiler keeps the drawn rows in "
                f"bfloat16, {gib_text(2 * values)} of {gib_text(found.temporary_bytes)} of "
                f"temporaries; in float32 they would be {gib_text(4 * values)}."
            )


def _alone(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    refused = [one for one in cells if isinstance(one.all_reduce, Failure)]
    if refused:
        yield f"The all-reduce alone is out of memory at {_places(refused)}."
        return
    most = max(one.all_reduce.peak_bytes for one in cells if isinstance(one.all_reduce, Compiled))
    yield f"The all-reduce alone fits everywhere, in {gib_text(most)} at most."


def _algorithms(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    """By slice; those that are treated alike share a line."""
    alike: dict[str, list[str]] = {}
    for part in slices_of(cells):
        column = of_slice(cells, part)
        spans = "; ".join(
            f"{span_text([one.payload_bytes for one in run])} {text}"
            for text, run in itertools.groupby(column, _algorithm_text)
        )
        rates = [one.published.algbw_gb_per_s or 0 for one in column if one.published]
        best = f"{part.name} (published: up to {max(rates, default=0):.4g} GB/s)"
        alike.setdefault(spans, []).append(best)
    for spans, names in alike.items():
        yield f"Algorithm on {' and '.join(names)}: {spans}."


def _algorithm_text(cell: TpuV2Cell) -> str:
    found = cell.all_reduce
    if isinstance(found, Failure):
        return "out of memory"
    return found.algorithm_text if found.algorithm else "not said by the compiler"


def _falls(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    """Where a larger payload was published with a shorter time, and whether that is explained."""
    for part in slices_of(cells):
        for small, large in itertools.pairwise(of_slice(cells, part)):
            before, now = _published_s(small), _published_s(large)
            if before and now and now < _FALL * before:
                same = _algorithm_text(small) == _algorithm_text(large)
                yield (
                    f"On {part.name} the published time falls by {100 * (1 - now / before):.0f} % "
                    f"from {payload_text(small.payload_bytes)} to "
                    f"{payload_text(large.payload_bytes)}, where the compiled algorithm "
                    f"{'does not change: this is unexplained' if same else 'changes too'}."
                )


def _published_s(cell: TpuV2Cell) -> float | None:
    rate = cell.published.algbw_gb_per_s if cell.published else None
    return metrics.seconds_of_algbw(cell.payload_bytes, rate) if rate else None


def _in_steps(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    """Whether the gradient is reduced as the payload alone is."""
    pairs = [
        (one, way, one.all_reduce.algorithm == found.algorithm)
        for one in cells
        for way, (_, found) in one.steps.items()
        if isinstance(found, Compiled) and isinstance(one.all_reduce, Compiled)
    ]
    others = [f"{_label(one)} ({way.value})" for one, way, same in pairs if not same]
    rest = f", and another one at {', '.join(others)}" if others else ""
    yield (
        f"In {len(pairs) - len(others)} of {plural(len(pairs), 'training step')} that compile, the "
        f"gradient's all-reduce has the algorithm of the all-reduce alone{rest}."
    )


def _places(cells: Sequence[TpuV2Cell]) -> str:
    return " and ".join(map(_label, cells)) or "no cell"


def _label(cell: TpuV2Cell) -> str:
    return f"{cell.part.name} {payload_text(cell.payload_bytes)}"

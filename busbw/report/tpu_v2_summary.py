"""What the published TPU v2 table and today's compiler agree on, and where they differ, in words.

Every sentence is made of the figures at hand: another compiler may say otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from busbw.model import Compiled, Failure, payload_text, plural

from .tpu_v2_cell import TpuV2Cell, Way, gib_text, of_slice, slices_of

_HOW = {
    Way.SHARED: "128 rows on each core",
    Way.DRAWN: "the whole batch on each core, drawn there, as the source's program does it",
    Way.GIVEN: "the whole batch on each core, given in float32",
}


def summary_lines(cells: Sequence[TpuV2Cell]) -> list[str]:
    """The page's first section: one item for each thing that was compared."""
    published = [one for one in cells if one.published is not None and one.steps]
    oom = [one for one in published if one.published_oom]
    lines = [
        f"- Out of memory: of {plural(len(published), 'cell')} that are published and compiled "
        f"as a training step, the source has OOM at {_places(oom)}."
    ]
    lines += [f"  - {_HOW[way].capitalize()}: {_agreement(published, way)}" for way in Way]
    lines += [f"  - {text}" for text in _narrow_rows(published)]
    lines += [f"- {text}" for text in _alone(cells)]
    lines += [f"- {text}" for text in _algorithms(cells)]
    lines += [f"- {text}" for text in _in_steps(cells)]
    return lines


def _agreement(published: Sequence[TpuV2Cell], way: Way) -> str:
    differing = [one for one in published if not one.agrees(way)]
    if not differing:
        refused = [one for one in published if not one.fits(way)]
        seen = ", ".join(_refusal(one, way) for one in refused) or "never OOM"
        return f"**agrees with all of them** ({seen})."
    agreeing = len(published) - len(differing)
    shown = "; ".join(_difference(one, way) for one in differing)
    return f"agrees with {agreeing}, **differs at {shown}**."


def _refusal(cell: TpuV2Cell, way: Way) -> str:
    found = cell.steps[way][1]
    assert isinstance(found, Failure)
    needed, there = gib_text(found.needed_bytes), gib_text(found.available_bytes)
    return f"{_place(cell)} needs {needed} of {there}"


def _difference(cell: TpuV2Cell, way: Way) -> str:
    found = cell.steps[way][1]
    if isinstance(found, Compiled):
        return f"{_place(cell)}, which fits ({gib_text(found.peak_bytes)})"
    assert cell.published is not None
    return f"{_refusal(cell, way)}, published with {cell.published.algbw_gb_per_s:.4g} GB/s"


def _narrow_rows(published: Sequence[TpuV2Cell]) -> Iterator[str]:
    """What fits only because drawn rows are not kept in float32."""
    limits = [
        found.available_bytes
        for one in published
        for _, found in one.steps.values()
        if isinstance(found, Failure) and found.available_bytes
    ]
    for one in published:
        step, found = one.steps[Way.DRAWN]
        wide = 4 * step.rows * step.inputs
        if not limits or wide <= min(limits) or not isinstance(found, Compiled):
            continue
        if found.temporary_bytes < wide:
            yield (
                f"{_place(one)} fits when drawn, though its rows would take {gib_text(wide)} in "
                f"float32: all temporaries are {gib_text(found.temporary_bytes)}, and the rows "
                f"{gib_text(wide // 2)} of them, in bfloat16, all that the matrix unit reads."
            )


def _alone(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    refused = [one for one in cells if isinstance(one.all_reduce, Failure)]
    if refused:
        yield f"The all-reduce alone is out of memory at {_places(refused)}."
        return
    most = max(one.all_reduce.peak_bytes for one in cells if isinstance(one.all_reduce, Compiled))
    yield f"The all-reduce alone fits everywhere; it takes at most {gib_text(most)}."


def _algorithms(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    """By slice; those that are treated alike share a line."""
    alike: dict[str, list[str]] = {}
    for part in slices_of(cells):
        column = of_slice(cells, part)
        spans = "; ".join(
            f"{_span(list(run))} {text}" for text, run in itertools.groupby(column, _algorithm)
        )
        alike.setdefault(spans, []).append(part.name)
    for spans, names in alike.items():
        yield f"Algorithm on {' and '.join(names)}: {spans}."


def _algorithm(cell: TpuV2Cell) -> str:
    found = cell.all_reduce
    if isinstance(found, Failure):
        return "out of memory"
    return found.algorithm_text if found.algorithm else "not said by the compiler"


def _span(run: Sequence[TpuV2Cell]) -> str:
    first, last = (payload_text(one.payload_bytes) for one in (run[0], run[-1]))
    return first if first == last else f"{first} to {last}"


def _in_steps(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    """Whether the gradient is reduced as the payload alone is."""
    pairs = [
        (one, way, one.all_reduce.algorithm == found.algorithm)
        for one in cells
        for way, (_, found) in one.steps.items()
        if isinstance(found, Compiled) and isinstance(one.all_reduce, Compiled)
    ]
    others = [f"{_place(one)} ({way.value})" for one, way, same in pairs if not same]
    alike = f"{len(pairs) - len(others)} of {plural(len(pairs), 'program')}"
    rest = f"; another one at {', '.join(others)}" if others else ""
    yield f"In {alike} of a step its all-reduce has the algorithm of the one alone{rest}."


def _places(cells: Sequence[TpuV2Cell]) -> str:
    return " and ".join(map(_place, cells)) or "no cell"


def _place(cell: TpuV2Cell) -> str:
    return f"{cell.part.name} {payload_text(cell.payload_bytes)}"

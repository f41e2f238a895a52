"""The published TPU v2 table and what a compiler makes of it today: the page's tables and words.

Published figures were measured by others, compiled programs were not measured: every table says
which is which. What follows from the figures is in `cells`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import resources
from urllib.parse import quote

from busbw import metrics
from busbw.hardware import wraps
from busbw.model import Compiled, Compiler, Failure, payload_text
from busbw.report import Table, filled, rendered, section, text_table

from .cells import TpuV2Cell, Way, gib_text, of_slice, slices_of, summary_lines

_TEXT = resources.files(__package__) / "page.md"
_PICTURE = resources.files(__package__) / "picture.md"
_BUILT = re.compile(r"Built on (\w+ +\d+ \d{4})")
_CHOICE = ("strategy", "emitter", "colors", "phases")
_PARTS_HEAD = (
    *("way", "slice", "largest", "arguments", "temporaries"),
    *("rows, float32", "rows, bfloat16", "next", "needed", "available"),
)


def tpu_v2_page(
    cells: Sequence[TpuV2Cell], compiler: Compiler, picture: str | None = None
) -> list[str]:
    """The whole page; `picture` is the name of the file next to it that it shows, if any."""
    return filled(
        _TEXT,
        picture=_picture(picture) if picture is not None else [],
        compiler=[_compiler_text(compiler)],
        summary=summary_lines(cells),
        all_reduce=_all_reduce(cells),
        steps=_steps(cells),
        parts=rendered("markdown", _parts(cells)),
        doubts=[*_doubts(cells), ""],
    )


def _picture(name: str) -> list[str]:
    return [*filled(_PICTURE, file=[quote(name)]), ""]


def _compiler_text(compiler: Compiler) -> str:
    built = _BUILT.search(compiler.build)
    when = f"built on {built[1]}" if built else compiler.build
    others = [(name, compiler.versions.get(name)) for name in ("jax", "jaxlib")]
    versions = [f"{name} {version}" for name, version in others if version]
    with_all = ", ".join([f"{compiler.release} ({when})", *versions])
    return f"Compiled by {with_all}."


def _all_reduce(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    head = ["payload", "published GB/s", "published GiB/s", "compiled: strategy", *_CHOICE[1:]]
    head += ["compiled: memory"]
    for part in slices_of(cells):
        topology = part.topology
        joined = "joined" if all(wraps(topology.layout.partition(":")[2])) else "not joined"
        ends = f"the ends of its axes {joined}"
        heading = f"{part.name}: `{topology.name}`, {topology.ranks} cores, {ends}"
        rows = [
            [
                payload_text(one.payload_bytes),
                *_published(one),
                *_choice(one.all_reduce),
                _memory(one.all_reduce),
            ]
            for one in of_slice(cells, part)
        ]
        yield from (*section(heading, text_table(head, rows)), "")


def _published(cell: TpuV2Cell) -> list[str]:
    """In GB/s and in the source's own GiB/s."""
    if cell.published is None:
        return ["-", "-"]
    rate = cell.published.algbw_gb_per_s
    if rate is None:
        return ["OOM", "OOM"]
    mark = " (?)" if cell.published.doubt else ""
    return [f"{rate:.4g}{mark}", f"{metrics.gib_per_s_of_gb_per_s(rate):.4g}{mark}"]


def _choice(found: Compiled | Failure) -> list[str]:
    if isinstance(found, Failure):
        return ["-"] * len(_CHOICE)
    if not found.algorithm:
        return ["not said", *["-"] * (len(_CHOICE) - 1)]
    return [found.algorithm.get(name, "-") for name in _CHOICE]


def _memory(found: Compiled | Failure) -> str:
    if isinstance(found, Compiled):
        return gib_text(found.peak_bytes)
    return f"OOM {gib_text(found.needed_bytes)}"


def _steps(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    """A section for each way, with a row for each payload that has a layer on all slices."""
    columns = [of_slice(cells, part) for part in slices_of(cells)]
    for way in Way:
        heads = [f"{one[-1].part.name}, {one[-1].steps[way][0].rows} rows" for one in columns]
        rows = []
        for across in zip(*columns, strict=True):
            if across[0].steps:
                step, _ = across[0].steps[way]
                layer = f"{step.inputs} x {step.outputs}"
                size = payload_text(across[0].payload_bytes)
                rows.append([size, layer, *(_fits(cell, way) for cell in across)])
        table = text_table(["payload", "layer", *heads], rows)
        yield from (*section(way.heading, table), "")


def _fits(cell: TpuV2Cell, way: Way) -> str:
    """What a core needs; where either side says OOM, what the source has."""
    text = _memory(cell.steps[way][1])
    if cell.fits(way) and not cell.published_oom:
        return text
    rate, _ = _published(cell)
    there = "no figure" if rate == "-" else rate if rate == "OOM" else f"{rate} GB/s"
    return f"{text}; published {there}"


def _parts(cells: Sequence[TpuV2Cell]) -> Table:
    rows = []
    for way in Way:
        for part in slices_of(cells):
            column = [one for one in of_slice(cells, part) if one.steps]
            largest = next((one for one in reversed(column) if one.fits(way)), None)
            refused = next((one for one in column if not one.fits(way)), None)
            rows.append([way.value, part.name, *_largest(largest, way), *_next(refused, way)])
    return text_table(_PARTS_HEAD, rows)


def _largest(cell: TpuV2Cell | None, way: Way) -> list[str]:
    if cell is None:
        return ["none"] + ["-"] * 4
    step, found = cell.steps[way]
    assert isinstance(found, Compiled)
    values = step.rows * step.inputs
    sizes = (found.argument_bytes, found.temporary_bytes, 4 * values, 2 * values)
    return [payload_text(cell.payload_bytes), *map(gib_text, sizes)]


def _next(cell: TpuV2Cell | None, way: Way) -> list[str]:
    if cell is None:
        return ["none"] + ["-"] * 2
    _, found = cell.steps[way]
    assert isinstance(found, Failure)
    sizes = (found.needed_bytes, found.available_bytes)
    return [payload_text(cell.payload_bytes), *map(gib_text, sizes)]


def _doubts(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    doubted: dict[str, list[str]] = {}
    for one in cells:
        if one.published is not None and one.published.doubt:
            label = f"{one.part.name} {payload_text(one.payload_bytes)}"
            doubted.setdefault(one.published.doubt, []).append(label)
    for doubt, labels in doubted.items():
        yield f"- (?) at {', '.join(labels)}: {doubt}. No step is compiled there."

"""The published TPU v2 table and what a compiler makes of it today: the page's tables and words.

What was published was measured by others, what was compiled was measured by nobody: every table
says which is which. What follows from the figures is in `tpu_v2_summary`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw import metrics
from busbw.hardware import wraps
from busbw.model import Compiled, Compiler, Failure, payload_text

from .markdown import markdown_table
from .tpu_v2_cell import TpuV2Cell, TpuV2Slice, Way, gib_text, of_slice, slices_of
from .tpu_v2_summary import summary_lines

_HEADINGS = {
    Way.SHARED: "Batch shared out over the cores",
    Way.DRAWN: "Whole batch on each core, drawn there",
    Way.GIVEN: "Whole batch on each core, given in float32",
}
_BUILT = re.compile(r"Built on (\w+ +\d+ \d{4})")
_CHOICE = ("strategy", "emitter", "colors", "phases")

_LEDE = """
A table of 2019 says how fast all-reduce was on four slices of TPU v2, and where memory ran out.
This page sets beside it what today's compiler for TPUs makes of the same all-reduce, and of the
training step that it was measured in. Bandwidth is published and was measured by others; algorithms
and memory are compiled; nothing was measured for this page.
"""

_SOURCES = """
*Published* is what the source measured in 2019: its table in the README of
[marsggbo/TPU_All_reduce](https://github.com/marsggbo/TPU_All_reduce), TensorFlow 1.12 on Cloud TPU
v2. The source writes GB/s where it means GiB/s (2^30 bytes/s); both are shown, and 1 GiB/s is
1.073741824 GB/s. "-" is a cell that the source left empty; beyond its OOM cells it has none, and
none is made up here.

*Compiled* is what the compiler above makes of the same sizes for the same slices, without a TPU.
It says which algorithm and how much memory, not how long it takes. That TensorFlow 1.12 had the
same algorithms is not known: only the shape of the figures can speak for it.
"""

_STEP = """
The source trained one dense layer, float32, without a bias, on random rows with random labels:
softmax cross-entropy, plain gradient descent, the gradient all-reduced. Payloads from 512K on are
a layer of (128 x scale) x 1024, of October 2019, from which both OOM cells are; smaller ones of
(512 x scale) x 512, of November 2019. Its scripts name a batch of 1024, 4096, 16384 and 65536 rows
for the four slices, for all cores together, which is 128 rows a core. But its model function, which
runs on every core, leaves the input pipeline's rows aside and draws rows for *the whole batch*. So
the step is compiled in three ways:

| way          | rows on each core     | where they come from                                   |
|--------------|-----------------------|--------------------------------------------------------|
| shared out   | the batch / cores     | float32 arguments, as from an input pipeline           |
| whole, drawn | the batch             | drawn within the step, as the source's program does it |
| whole, given | the batch             | float32 arguments                                      |

Weights are on every core and given up to the step (donated), so that the new ones take the place of
the old. Every program was proved to hold one all-reduce, of all bytes of the gradient over all
cores. Below: the memory that a core needs for the step, at its peak. "OOM" is the compiler's
refusal, with the memory that it says is needed; behind it what the source has there.
"""

_PARTS = """
Of each way the largest payload that compiles, and the next, which does not. Arguments are the
weights (as large as the payload), labels and rows that are given; temporaries the gradient (as
large), the logits and rows that are drawn. "Rows" is what the rows alone take in either type.
"""

_DOUBTS = """
- The source's TensorFlow made its random rows in another way than JAX does, and how wide they lay
  in memory then is not known. The agreement of drawn rows rests on their width: with "rbg" instead
  of JAX's default generator, libtpu 0.0.42.1 asked for 12.50 GiB at v2-128 512M and refused it.
- What the compiler leaves a program of a core's 8 GiB is today's limit; that of 2019 is not known.
"""


def tpu_v2_page(cells: Sequence[TpuV2Cell], compiler: Compiler) -> list[str]:
    """The whole page."""
    return [
        "# TPU v2: the published table, and what today's compiler makes of it",
        "",
        "<!-- Written by `python -m busbw tpu-v2 --document docs/tpu-v2.md`, not by hand. -->",
        "",
        *_compiler_lines(compiler),
        *_LEDE.splitlines(),
        "",
        "## In short",
        "",
        *summary_lines(cells),
        "",
        "## What is published and what is compiled",
        *_SOURCES.splitlines(),
        "",
        "## All-reduce alone: published bandwidth, compiled algorithm",
        "",
        *_all_reduce(cells),
        "## The training step: what fits",
        *_STEP.splitlines(),
        "",
        *_steps(cells),
        "### Which part of memory it is",
        *_PARTS.splitlines(),
        "",
        *_parts(cells),
        "",
        "## Doubts",
        "",
        *_doubts(cells),
    ]


def _compiler_lines(compiler: Compiler) -> list[str]:
    built = _BUILT.search(compiler.build)
    when = f"built on {built[1]}" if built else compiler.build
    others = [(name, compiler.versions.get(name)) for name in ("jax", "jaxlib")]
    versions = [f"{name} {version}" for name, version in others if version]
    with_all = ", ".join([f"{compiler.release} ({when})", *versions])
    return [f"Compiled by {with_all}."]


def _all_reduce(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    head = ["payload", "published GB/s", "published GiB/s", "compiled: strategy", *_CHOICE[1:]]
    head += ["compiled: memory"]
    for part in slices_of(cells):
        yield f"### {part.name}: `{part.topology.name}`, {part.topology.ranks} cores, {_ends(part)}"
        yield ""
        rows = [
            [
                payload_text(one.payload_bytes),
                *_published(one),
                *_choice(one.all_reduce),
                _memory(one.all_reduce),
            ]
            for one in of_slice(cells, part)
        ]
        yield from markdown_table(head, rows)
        yield ""


def _ends(part: TpuV2Slice) -> str:
    joined = wraps(part.topology.layout.partition(":")[2])
    return "the ends of its axes joined" if all(joined) else "the ends of its axes not joined"


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
    parts = slices_of(cells)
    payloads = [one for one in of_slice(cells, parts[0]) if one.steps]
    for way in Way:
        yield f"### {_HEADINGS[way]}"
        yield ""
        found = {(one.part.name, one.payload_bytes): one for one in cells}
        rows = []
        for one in payloads:
            step, _ = one.steps[way]
            across = [found[part.name, one.payload_bytes] for part in parts]
            rows.append(
                [
                    payload_text(one.payload_bytes),
                    f"{step.inputs} x {step.outputs}",
                    *(_fits(cell, way) for cell in across),
                ]
            )
        heads = [_rows_head(cells, part, way) for part in parts]
        yield from markdown_table(["payload", "layer", *heads], rows)
        yield ""


def _rows_head(cells: Sequence[TpuV2Cell], part: TpuV2Slice, way: Way) -> str:
    step, _ = of_slice(cells, part)[-1].steps[way]
    return f"{part.name}, {step.rows} rows"


def _fits(cell: TpuV2Cell, way: Way) -> str:
    """What a core needs; where either side says OOM, what the source has."""
    text = _memory(cell.steps[way][1])
    if cell.fits(way) and not cell.published_oom:
        return text
    rate, _ = _published(cell)
    there = "no figure" if rate == "-" else rate if rate == "OOM" else f"{rate} GB/s"
    return f"{text}; published {there}"


def _parts(cells: Sequence[TpuV2Cell]) -> list[str]:
    head = [
        "way",
        "slice",
        "largest",
        "arguments",
        "temporaries",
        "rows, float32",
        "rows, bfloat16",
    ]
    head += ["next", "needed", "available"]
    rows = []
    for way in Way:
        for part in slices_of(cells):
            column = [one for one in of_slice(cells, part) if one.steps]
            fitting = [one for one in column if one.fits(way)]
            refused = [one for one in column if not one.fits(way)]
            ends = (*_largest(fitting[-1:], way), *_next(refused[:1], way))
            rows.append([way.value, part.name, *ends])
    return markdown_table(head, rows)


def _largest(fitting: Sequence[TpuV2Cell], way: Way) -> list[str]:
    for cell in fitting:
        step, found = cell.steps[way]
        assert isinstance(found, Compiled)
        values = step.rows * step.inputs
        sizes = (found.argument_bytes, found.temporary_bytes, 4 * values, 2 * values)
        return [payload_text(cell.payload_bytes), *map(gib_text, sizes)]
    return ["none"] + ["-"] * 4


def _next(refused: Sequence[TpuV2Cell], way: Way) -> list[str]:
    for cell in refused:
        _, found = cell.steps[way]
        assert isinstance(found, Failure)
        return [
            payload_text(cell.payload_bytes),
            gib_text(found.needed_bytes),
            gib_text(found.available_bytes),
        ]
    return ["none"] + ["-"] * 2


def _doubts(cells: Sequence[TpuV2Cell]) -> Iterator[str]:
    doubted: dict[str, list[str]] = {}
    for one in cells:
        if one.published is not None and one.published.doubt:
            place = f"{one.part.name} {payload_text(one.payload_bytes)}"
            doubted.setdefault(one.published.doubt, []).append(place)
    for doubt, where in doubted.items():
        yield f"- (?) at {', '.join(where)}: {doubt}. No step is compiled there."
    yield from _DOUBTS.strip().splitlines()

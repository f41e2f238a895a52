"""`python -m busbw tpu-v2`: the published TPU v2 table next to what the installed compiler does.

What is known of the table's source is here: its slices, batches and layers. Published figures were
measured by others, nothing is measured here, and every sentence is made from the figures.
"""

from __future__ import annotations

import argparse
import enum
import itertools
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from busbw import files, grid, metrics
from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_folder
from busbw.baselines.store import find_published
from busbw.commands import CommandError, local_executor, starter, usage_error
from busbw.driver.parallel import Job, Parallel
from busbw.frameworks import COMPILED
from busbw.hardware.topologies import topology_of
from busbw.model.case import Spec
from busbw.model.launch import Compiled, Failure
from busbw.model.machine import Compiler, Protocol
from busbw.model.verdict import Reference
from busbw.model.words import KIB, Capability, Clock, FailureKind, bytes_text, payload_text, plural
from busbw.report.renderers import rendered
from busbw.report.renderers.markdown import filled, item
from busbw.report.table import span_text, text_table
from busbw.session import homes
from busbw.session.option import Option, folder_option
from busbw.workloads.collective import Collective
from busbw.workloads.dense_step import Batch, DenseStep

from . import Study, framework_option

ORDER = 4
_PAYLOADS = metrics.parse_payloads("1K:1024M")
_TIMEOUT_S = 600.0
_SHOWN = ("jax", "jaxlib")
_GIB = 2**30
# A larger payload that takes less time by more than this is not explained by noise.
_FALL = 0.9
# From this payload on the source's layer has 1024 outputs, below 512; its weights are float32.
_WIDE_BYTES, _ITEM_BYTES = 512 * KIB, 4
_BUILT = re.compile(r"Built on (\w+ +\d+ \d{4})")
_DESCRIPTION = """
Compile all-reduce and a training step for the four slices of a published TPU v2 table, and print a
page of Markdown with the compiled programs next to the published figures. This takes minutes and
needs no TPU.
"""
# The topology of a slice, and the source's batch, in rows for all cores together.
SLICES = {
    "v2-8": ("v2:2x2", 1024),
    "v2-32": ("v2:4x4", 4096),
    "v2-128": ("v2:8x8", 16384),
    "v2-512": ("v2:16x16", 65536),
}


class Way(enum.StrEnum):
    """How the batch of a training step is distributed over the cores."""

    SHARED = "shared out"
    DRAWN = "whole, drawn"
    GIVEN = "whole, given"


Found = Compiled | Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A payload on a slice. `published` is None where the source has nothing there.

    A payload too small for a layer has no `steps`.
    """

    slice: str
    payload_bytes: int
    published: Reference | None
    all_reduce: Found
    steps: Mapping[Way, Found]

    def __str__(self) -> str:
        return f"{self.slice} {payload_text(self.payload_bytes)}"

    @property
    def published_gb_per_s(self) -> float | None:
        return None if self.published is None else self.published.algbw_gb_per_s

    @property
    def published_s(self) -> float:
        """0 where no rate is published."""
        rate = self.published_gb_per_s
        return metrics.seconds_of_algbw(self.payload_bytes, rate) if rate else 0.0


# A cell's slice, published figure, all-reduce and steps.
_Asked = tuple[str, Reference | None, Job, dict[Way, Job]]


_OPTIONS = (
    framework_option(COMPILED, help="Compile with this framework. fake simulates compilers"),
    Option(
        name="compile_cache",
        metavar="DIR",
        help="Keep compiled programs in DIR; none keeps nothing (default: busbw in the user's "
        "cache folder)",
    ),
    folder_option(
        "baselines",
        "Read the published figures from this folder (default: those shipped with busbw)",
    ),
)


def _folder(options: argparse.Namespace) -> Path:
    return options.baselines or files.shipped_baselines()


def _question(options: argparse.Namespace) -> argparse.Namespace:
    with usage_error(BaselineError, where="--baselines: "):
        check_folder(_folder(options))
    with usage_error(ValueError, files.Refused, where="--compile-cache: "):
        options.cache = homes.cache_folder(options.compile_cache or "")
        if options.cache is not None:
            files.check_folder(options.cache)
    return options


def _sums(options: argparse.Namespace) -> tuple[Compiler, list[Cell]]:
    """Compile and compare. Raises CommandError where there is no whole page."""
    with local_executor() as executor:
        compiling = Parallel(
            executor=executor,
            starters={"": starter(options.framework, Capability.COMPILE)},
            workers=len(os.sched_getaffinity(0)),
            timeout_s=_TIMEOUT_S,
            cache=options.cache,
            on_progress=_progress,
        )
        topologies = [topology_of(topology) for topology, _ in SLICES.values()]
        compilers = compiling.describe("", topologies)
        missing = next((one.missing for one in compilers if one.missing), "")
        if missing:
            raise _no_page(missing)
        spec = Spec(framework=options.framework, workload=Collective(), payload_bytes=1)
        asked = [
            _asked(_folder(options), name, compiler, replace(spec, payload_bytes=size))
            for name, compiler in zip(SLICES, compilers, strict=True)
            for size in _PAYLOADS
        ]
        if not any(published for _, published, _, _ in asked):
            where = f"there are no published figures for TPU v2 in {_folder(options)}"
            raise CommandError(f"--baselines: {where}")
        compiling.run([job for _, _, alone, steps in asked for job in (alone, *steps.values())])
    results = compiling.results
    _check(results)
    return compilers[0], [
        Cell(
            slice=name,
            payload_bytes=job.case.payload_bytes,
            published=published,
            all_reduce=results[job],
            steps={way: results[step] for way, step in steps.items()},
        )
        for name, published, job, steps in asked
    ]


def _no_page(reasons: str) -> CommandError:
    """Each line names the command."""
    return CommandError("\nbusbw tpu-v2: ".join(reasons.splitlines()))


def _asked(folder: Path, name: str, compiler: Compiler, spec: Spec) -> _Asked:
    """A cell before it is compiled. Raises CommandError for published figures that are damaged."""
    assert compiler.devices is not None
    topology, batch = SLICES[name]
    case, key = grid.resolve_on(spec, compiler.devices)
    try:
        published = find_published(folder, key, case)
    except (BaselineError, OSError) as error:
        raise _no_page(str(error)) from error
    job = Job(case=case, topology=topology_of(topology))
    outputs = 1024 if case.payload_bytes >= _WIDE_BYTES else 512
    ways = Way if case.payload_bytes >= outputs * _ITEM_BYTES else ()
    return name, published, job, {way: _step(job, way, outputs, batch) for way in ways}


def _step(job: Job, way: Way, outputs: int, batch: int) -> Job:
    """The source's training step."""
    step = DenseStep(
        outputs=outputs,
        rows=batch // job.case.ranks if way is Way.SHARED else batch,
        batch=Batch.DRAWN if way is Way.DRAWN else Batch.GIVEN,
    )
    protocol = Protocol(clock=Clock.DISPATCH, program="step")
    return replace(job, case=replace(job.case, workload=step, mesh="", protocol=protocol))


def _check(results: Mapping[Job, Found]) -> None:
    """Out of memory is an answer; anything else that failed would leave a hole in the page."""
    failed = [
        f"{job.case.name} of {job.case.workload} for {job.topology.name}: "
        f"{one.kind.value}: {one.message}"
        for job, one in results.items()
        if isinstance(one, Failure) and one.kind is not FailureKind.OUT_OF_MEMORY
    ]
    if failed:
        raise _no_page("\n".join(sorted(failed)))


def _progress(done: int, total: int, job: Job) -> None:
    """One line that is written over, on a terminal."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rbusbw tpu-v2: compiled {done}/{total}", end=end, file=sys.stderr, flush=True)


def tpu_v2_page(compiler: Compiler, cells: Sequence[Cell]) -> list[str]:
    """Lines of Markdown."""
    built = _BUILT.search(compiler.build)
    when = f"built on {built[1]}" if built else compiler.build
    named = [f"{one} {text}" for one, text in compiler.versions.items() if one in _SHOWN]
    columns = [list(of) for _, of in itertools.groupby(cells, lambda one: one.slice)]
    slices = [column[0].slice for column in columns]
    rates = [[payload_text(row[0].payload_bytes), *map(_rate, row)] for row in zip(*columns)]
    largest = [[way.value, *(_largest(way, column) for column in columns)] for way in Way]
    return filled(
        resources.files(__package__) / "tpu_v2.md",
        compiler=[f"Compiled by {', '.join([f'{compiler.release} ({when})', *named])}."],
        summary=[line for text in _summary(cells, columns) for line in item(text)],
        published=rendered("markdown", text_table(["payload", *slices], rates)),
        memory=rendered("markdown", text_table(["batch", *slices], largest)),
        doubts=_doubts(cells),
    )


def _summary(cells: Sequence[Cell], columns: Sequence[Sequence[Cell]]) -> Iterator[str]:
    """An report.item for each thing that was compared."""
    there = [one for one in cells if one.published is not None and one.steps]
    oom = [one for one in there if one.published and one.published.oom]
    count = plural(len(there), "cell")
    where = " and ".join(map(str, oom)) or "no cell"
    yield f"OOM is published at {where}, of {count} that are compiled as a step."
    for way in Way:
        refused = [one for one in there if isinstance(one.steps[way], Failure)]
        differing = [one for one in there if (one in refused) is not (one in oom)]
        agreeing = f"agrees at {len(there) - len(differing)}"
        names = " and ".join(f"{one} ({_compared(one, way)})" for one in differing or refused)
        how = f"{agreeing}, **differs at {names}**" if differing else f"**agrees at all**: {names}"
        yield f"Batch {way.value}: {how}."
    alike: dict[str, list[str]] = {}
    for column in columns:
        runs = [(text, list(of)) for text, of in itertools.groupby(column, _algorithm)]
        spans = [f"{span_text([one.payload_bytes for one in of])} {text}" for text, of in runs]
        alike.setdefault("; ".join(spans), []).append(column[0].slice)
    for text, slices in alike.items():
        yield f"Algorithm on {' and '.join(slices)}: {text}."
    for small, large in itertools.pairwise(cells):
        before, now = small.published_s, large.published_s
        if before and now and small.slice == large.slice and now < _FALL * before:
            same = _algorithm(small) == _algorithm(large)
            yield (
                f"The published time falls by {100 * (1 - now / before):.0f} % from {small} to "
                f"{large}, where the compiled algorithm "
                f"{'does not change: this is unexplained' if same else 'changes too'}."
            )


def _compared(cell: Cell, way: Way) -> str:
    rate = cell.published_gb_per_s
    there = "OOM" if rate is None else f"{rate:.4g} GB/s"
    found = cell.steps[way]
    fits = f"fits in {_gib(found.peak_bytes)}" if isinstance(found, Compiled) else _needs(found)
    return f"{fits}; published: {there}"


def _needs(found: Failure) -> str:
    return f"needs {_gib(found.needed_bytes)} of {_gib(found.available_bytes)}"


def _gib(count: int | None) -> str:
    """Bytes with two decimals from 1 GiB on, as the limit of 7.48 GiB needs."""
    if count is None:
        return "not said"
    return f"{count / _GIB:.2f} GiB" if count >= _GIB else bytes_text(count)


def _algorithm(cell: Cell) -> str:
    found = cell.all_reduce
    if isinstance(found, Failure):
        return "out of memory"
    return found.algorithm_text if found.algorithm else "not said by the compiler"


def _rate(cell: Cell) -> str:
    """In GB/s and in the source's own GiB/s."""
    if cell.published is None:
        return "-"
    rate = cell.published_gb_per_s
    if rate is None:
        return "OOM"
    mark = " (?)" if cell.published.doubt else ""
    return f"{rate:.4g} ({metrics.gib_per_s_of_gb_per_s(rate):.4g}){mark}"


def _largest(way: Way, column: Sequence[Cell]) -> str:
    """The largest payload that compiles, and the next one."""
    fits, refused = "none", ""
    for cell in column:
        found, size = cell.steps.get(way), payload_text(cell.payload_bytes)
        if isinstance(found, Compiled):
            fits = f"{size} in {_gib(found.peak_bytes)}"
        elif found is not None and not refused:
            refused = f"; {size} {_needs(found)}"
    return fits + refused


def _doubts(cells: Sequence[Cell]) -> list[str]:
    doubted: dict[str, list[str]] = {}
    for one in cells:
        if one.published is not None and one.published.doubt:
            doubted.setdefault(one.published.doubt, []).append(str(one))
    texts = [f"(?) {', '.join(cells)}: {doubt}." for doubt, cells in doubted.items()]
    return [line for text in texts for line in item(text)]


add_to = Study(
    name="tpu-v2",
    help="Compare a published TPU v2 table with what today's compiler does",
    description=_DESCRIPTION,
    options=_OPTIONS,
    question=_question,
    sums=_sums,
    page=lambda options, answer: tpu_v2_page(*answer),
    reads=lambda options: _folder(options).rglob("*.json"),
).add_to

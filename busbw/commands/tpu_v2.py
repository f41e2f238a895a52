"""`python -m busbw tpu-v2`: the published TPU v2 table beside what the compiler that is here does.

What is known of the table's source stands here: its slices, batches and layers. Nothing is
measured; the words of the page are those of `report`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import baselines, driver, grid, hardware, metrics, report
from busbw.frameworks import COMPILED, FRAMEWORKS
from busbw.model import (
    KIB,
    Capability,
    Case,
    Clock,
    Compiled,
    Compiler,
    Failure,
    FailureKind,
    Protocol,
    Reference,
    Spec,
    payload_text,
)
from busbw.report import TpuV2Cell, TpuV2Slice, Way
from busbw.workloads import Batch, Collective, DenseStep, layer_of

from . import pages

_PAYLOADS = metrics.parse_payloads("1K:1024M")
_TIMEOUT_S = 600.0

# The batch of each slice, in rows, is the source's for all cores together.
_SLICES = tuple(
    TpuV2Slice(name=name, topology=hardware.topology_of(topology), batch=batch)
    for name, topology, batch in (
        ("v2-8", "v2:2x2", 1024),
        ("v2-32", "v2:4x4", 4096),
        ("v2-128", "v2:8x8", 16384),
        ("v2-512", "v2:16x16", 65536),
    )
)

# From this payload on the source's layer has 1024 outputs, below 512; its weights are float32.
_WIDE_BYTES = 512 * KIB
_ITEM_BYTES = 4

_DESCRIPTION = """
Compile all-reduce and a training step for the four slices of the published TPU v2 table, and set
what the compiler makes of them beside the published figures, as a page of Markdown. It takes
minutes and no TPU.
"""


class PageError(Exception):
    """There is no page; each line of the message says why."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command and its options."""
    parser = commands.add_parser(
        "tpu-v2",
        help="the published TPU v2 table beside what today's compiler does",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    add = parser.add_argument
    pages.add_document(parser)
    add(
        "--compile-cache",
        default="",
        metavar="DIR",
        help="where compiled programs are kept; none: nowhere (default: busbw in the user's cache "
        "folder)",
    )
    add(
        "--baselines",
        type=Path,
        default=Path("baselines"),
        metavar="DIR",
        help="where the published figures lie (default: baselines)",
    )
    add(
        "--framework",
        choices=COMPILED,
        default="jax",
        help="whose compilers; fake: made-up ones, to try the command (default: jax)",
    )


def run(options: argparse.Namespace) -> int:
    """Compile, compare, write; 0 if there is a whole page, 2 for a file that it must not become."""
    try:
        _check_baselines(options.baselines)
        pages.check_page(options.document, "tpu-v2", options.baselines.rglob("*.json"))
        cache = driver.cache_folder(options.compile_cache)
        if cache is not None:
            pages.check_folder("--compile-cache", cache)
    except pages.Unwritable as error:
        print(f"busbw tpu-v2: {error}", file=sys.stderr)
        return 2
    bundle = driver.Bundle()
    try:
        lines = _page(options, bundle)
    except PageError as error:
        for line in str(error).splitlines():
            print(f"busbw tpu-v2: {line}", file=sys.stderr)
        return 1
    finally:
        bundle.remove()
    return pages.put(lines, options.document, "tpu-v2")


def _check_baselines(root: Path) -> None:
    try:
        baselines.check_folder(root)
    except baselines.BaselineError as error:
        raise pages.Unwritable(f"--baselines: {error}") from error


def _page(options: argparse.Namespace, bundle: driver.Bundle) -> list[str]:
    starter = driver.Starter(
        python=sys.executable,
        framework=options.framework,
        capability=Capability.COMPILE,
        defaults=FRAMEWORKS[options.framework].environment,
    )
    compiling = driver.Parallel(
        executor=driver.Executor(driver.LocalTransport(bundle)),
        starters={"": starter},
        workers=len(os.sched_getaffinity(0)),
        timeout_s=_TIMEOUT_S,
        cache=driver.cache_folder(options.compile_cache),
        on_progress=_progress,
    )
    compilers = compiling.describe("", [one.topology for one in _SLICES])
    for compiler in compilers:
        if compiler.missing:
            raise PageError(compiler.missing)
    asked = [
        _asked(options, part, payload, compiler)
        for part, compiler in zip(_SLICES, compilers, strict=True)
        for payload in _PAYLOADS
    ]
    if not any(one.published for one in asked):
        raise PageError(
            f"--baselines: there are no published figures for TPU v2 in {options.baselines}"
        )
    compiling.run([job for one in asked for job in one.jobs])
    _check(compiling.results)
    return report.tpu_v2_page([one.cell(compiling.results) for one in asked], compilers[0])


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """One cell of the table before it is compiled."""

    part: TpuV2Slice
    case: Case
    published: Reference | None
    steps: Mapping[Way, Case]

    @property
    def jobs(self) -> list[driver.Job]:
        """All that is to be compiled for it."""
        return [self._job(self.case), *map(self._job, self.steps.values())]

    def _job(self, case: Case) -> driver.Job:
        return driver.Job(case=case, topology=self.part.topology)

    def cell(self, results: Mapping[driver.Job, Compiled | Failure]) -> TpuV2Cell:
        """With what was compiled."""
        return TpuV2Cell(
            part=self.part,
            payload_bytes=self.case.payload_bytes,
            published=self.published,
            all_reduce=results[self._job(self.case)],
            steps={
                way: (layer_of(step), results[self._job(step)]) for way, step in self.steps.items()
            },
        )


def _asked(
    options: argparse.Namespace, part: TpuV2Slice, payload_bytes: int, compiler: Compiler
) -> _Asked:
    assert compiler.devices is not None
    spec = Spec(framework=options.framework, workload=Collective(), payload_bytes=payload_bytes)
    case, key = grid.resolve_on(spec, compiler.devices)
    try:
        published = baselines.find_published(options.baselines, key, case)
    except (baselines.BaselineError, OSError) as error:
        raise PageError(str(error)) from error
    return _Asked(part=part, case=case, published=published, steps=_steps(part, case))


def _steps(part: TpuV2Slice, case: Case) -> dict[Way, Case]:
    """The source's training step in each way to hold its batch; none where no layer is so small."""
    outputs = 1024 if case.payload_bytes >= _WIDE_BYTES else 512
    if case.payload_bytes < outputs * _ITEM_BYTES:
        return {}
    return {
        way: replace(
            case,
            workload=DenseStep(
                outputs=outputs,
                rows=part.batch // case.ranks if way is Way.SHARED else part.batch,
                batch=Batch.DRAWN if way is Way.DRAWN else Batch.GIVEN,
            ),
            mesh="",
            protocol=Protocol(clock=Clock.DISPATCH, program="step"),
        )
        for way in Way
    }


def _check(results: Mapping[driver.Job, Compiled | Failure]) -> None:
    """Out of memory is an answer; anything else that failed would leave a hole in the page."""
    failed = [
        f"{_name(job.case)} for {job.topology.name}: {one.kind.value}: {one.message}"
        for job, one in results.items()
        if isinstance(one, Failure) and one.kind is not FailureKind.OUT_OF_MEMORY
    ]
    if failed:
        raise PageError("\n".join(sorted(failed)))


def _name(case: Case) -> str:
    """The case in one word; steps, which have one payload, by their batches, too."""
    if case.workload.is_bare:
        return case.name
    layer = layer_of(case)
    parts = (case.framework, "step", layer.batch.value, str(layer.rows), case.dtype)
    return ".".join((*parts, payload_text(case.payload_bytes)))


def _progress(done: int, total: int, job: driver.Job) -> None:
    """One line that is written over, where somebody looks."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rbusbw tpu-v2: compiled {done}/{total}", end=end, file=sys.stderr, flush=True)

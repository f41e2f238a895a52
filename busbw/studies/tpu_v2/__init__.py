"""`python -m busbw tpu-v2`: the published TPU v2 table next to what the installed compiler does.

What is known of the table's source is here: its slices, batches and layers. Nothing is measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import baselines, driver, grid, hardware, metrics, report, shipped, writing
from busbw.commands.command import (
    CommandError,
    Commands,
    add_command,
    add_page_options,
    check_document,
    check_file,
    local_executor,
    starter,
    usage_error,
    write_file,
    write_page,
)
from busbw.commands.documents import published_chart, published_files
from busbw.frameworks import COMPILED
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
from busbw.workloads import Batch, Collective, DenseStep, layer_of

from .cells import TpuV2Cell, TpuV2Slice, Way
from .page import tpu_v2_page

ORDER = 4
_PAYLOADS = metrics.parse_payloads("1K:1024M")
_TIMEOUT_S = 600.0
_DEVICE = "tpu-v2"
_PICTURE_REFUSED = "busbw tpu-v2: --document: "

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
Compile all-reduce and a training step for the four slices of the published TPU v2 table, and write
a page of Markdown with what the compiler makes of them next to the published figures. With
--document=page.md a picture of these figures is written to page.svg. This takes minutes and needs
no TPU.
"""


_Results = Mapping[driver.Job, Compiled | Failure]
# A slice, what is published of a payload on it, and the case of the all-reduce.
_Asked = tuple[TpuV2Slice, Reference | None, Case]


def add_to(commands: Commands) -> None:
    """Add this command and its options."""
    parser = add_command(
        commands,
        "tpu-v2",
        run,
        help="the published TPU v2 table next to what today's compiler does",
        description=_DESCRIPTION,
    )
    add = parser.add_argument
    add_page_options(parser, COMPILED, help="whose compilers; fake: simulated ones")
    add(
        "--compile-cache",
        default="",
        metavar="DIR",
        help="where compiled programs are kept; none: do not keep them (default: busbw in the "
        "user's cache folder)",
    )
    add(
        "--baselines",
        type=Path,
        default=shipped.baselines(),
        metavar="DIR",
        help="where the published figures are (default: those shipped with busbw)",
    )


def run(options: argparse.Namespace) -> int:
    """Compile, compare, write; 0 if there is a whole page. Raises CommandError."""
    with usage_error(baselines.BaselineError, where="--baselines: "):
        baselines.check_folder(options.baselines)
    check_document(options, options.baselines.rglob("*.json"))
    picture = _picture(options)
    cache = driver.cache_folder(options.compile_cache)
    if cache is not None:
        with usage_error(writing.Refused, where="--compile-cache: "):
            writing.check_folder(cache)
    with local_executor() as executor:
        compiling = driver.Parallel(
            executor=executor,
            starters={"": starter(options.framework, Capability.COMPILE)},
            workers=len(os.sched_getaffinity(0)),
            timeout_s=_TIMEOUT_S,
            cache=cache,
            on_progress=_progress,
        )
        lines = _page(options, compiling, picture.path.name if picture is not None else None)
    if picture is not None and write_file(picture.content, picture.path, _PICTURE_REFUSED):
        return 1
    return write_page(lines, options)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Picture:
    """The file that a page shows."""

    path: Path
    content: str


def _picture(options: argparse.Namespace) -> _Picture | None:
    """What is drawn next to a page in a file such as page.md; none where vl-convert is missing."""
    document: Path | None = options.document
    paths = published_files(options.baselines, _DEVICE)
    if document is None or document.suffix in ("", ".svg") or not paths:
        return None
    path = document.with_suffix(".svg")
    check_file("--document", path, "a picture of busbw figure", report.is_picture, paths)
    try:
        return _Picture(path=path, content=report.svg(published_chart(paths), report.Size()))
    except report.PictureError as error:
        print(f"busbw tpu-v2: the page has no picture: {error}", file=sys.stderr)
        return None


def _page(
    options: argparse.Namespace, compiling: driver.Parallel, picture: str | None
) -> list[str]:
    compilers = compiling.describe("", [one.topology for one in _SLICES])
    for compiler in compilers:
        if compiler.missing:
            raise _no_page(compiler.missing)
    asked = [
        _asked(options, part, payload, compiler)
        for part, compiler in zip(_SLICES, compilers, strict=True)
        for payload in _PAYLOADS
    ]
    if not any(published for _, published, _ in asked):
        raise CommandError(
            f"--baselines: there are no published figures for TPU v2 in {options.baselines}"
        )
    compiling.run(
        [_job(part, one) for part, _, case in asked for one in (case, *_steps(part, case).values())]
    )
    _check(compiling.results)
    cells = [_cell(one, compiling.results) for one in asked]
    return tpu_v2_page(cells, compilers[0], picture)


def _no_page(reasons: str) -> CommandError:
    """Each line names the command."""
    return CommandError("\nbusbw tpu-v2: ".join(reasons.splitlines()))


def _asked(
    options: argparse.Namespace, part: TpuV2Slice, payload_bytes: int, compiler: Compiler
) -> _Asked:
    """A cell of the table, before it is compiled."""
    assert compiler.devices is not None
    spec = Spec(framework=options.framework, workload=Collective(), payload_bytes=payload_bytes)
    case, key = grid.resolve_on(spec, compiler.devices)
    try:
        published = baselines.find_published(options.baselines, key, case)
    except (baselines.BaselineError, OSError) as error:
        raise _no_page(str(error)) from error
    return part, published, case


def _cell(asked: _Asked, results: _Results) -> TpuV2Cell:
    """With what was compiled."""
    part, published, case = asked
    steps = _steps(part, case)
    return TpuV2Cell(
        part=part,
        payload_bytes=case.payload_bytes,
        published=published,
        all_reduce=results[_job(part, case)],
        steps={way: (layer_of(step), results[_job(part, step)]) for way, step in steps.items()},
    )


def _job(part: TpuV2Slice, case: Case) -> driver.Job:
    return driver.Job(case=case, topology=part.topology)


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


def _check(results: _Results) -> None:
    """Out of memory is an answer; anything else that failed would leave a hole in the page."""
    failed = [
        f"{_name(job.case)} for {job.topology.name}: {one.kind.value}: {one.message}"
        for job, one in results.items()
        if isinstance(one, Failure) and one.kind is not FailureKind.OUT_OF_MEMORY
    ]
    if failed:
        raise _no_page("\n".join(sorted(failed)))


def _name(case: Case) -> str:
    """The case in one word; steps, which have one payload, by their batches, too."""
    if case.workload.is_bare:
        return case.name
    layer = layer_of(case)
    parts = (case.framework, "step", layer.batch.value, str(layer.rows), case.dtype)
    return ".".join((*parts, payload_text(case.payload_bytes)))


def _progress(done: int, total: int, job: driver.Job) -> None:
    """One line that is written over, on a terminal."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rbusbw tpu-v2: compiled {done}/{total}", end=end, file=sys.stderr, flush=True)

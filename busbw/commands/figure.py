"""`python -m busbw figure RESULTS...`: bandwidths, memory of programs, or nights as a picture.

Reads files of `--results`, published figures or a history; the suffix of `-o` says whether SVG or
PNG is written. Measures nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from busbw import baselines, report, shipped, writing
from busbw.model import refusal

from .command import (
    CommandError,
    Commands,
    UsageError,
    add_command,
    check_file,
    name_of,
    shown,
    usage_error,
    whole_number,
)
from .documents import machines_in, published_chart, published_files, session_in

ORDER = 1
_FORMS = (".svg", ".png")
_LEAST_WIDTH, _MOST_WIDTH = 280, 4000


def add_to(commands: Commands) -> None:
    """The command's options."""
    parser = add_command(
        commands,
        "figure",
        run,
        help="bandwidths, memory of programs or nights as SVG or PNG",
        description=__doc__ or "",
    )
    add = parser.add_argument
    add("results", nargs="*", type=Path, metavar="RESULTS", help="files of --results: a curve each")
    add(
        "--published",
        metavar="DEVICE",
        help="published figures instead, by the folder of a device such as tpu-v2",
    )
    add(
        "--history",
        type=Path,
        metavar="DIR",
        help="the heat map of the nights in the folder of --history instead",
    )
    add("--machine", metavar="NAME", help="which machine of DIR, such as tpu-v5-lite/4r")
    add(
        "--case",
        metavar="NAME",
        help="the nights of one case of DIR, such as jax.all_reduce.psum.float32.1M",
    )
    add(
        "--part",
        type=whole_number(1),
        default=1,
        metavar="N",
        help="which heat map of a machine with more cases than one has (default: 1)",
    )
    add(
        "--baselines",
        type=Path,
        metavar="DIR",
        help="where published figures are (default: those shipped with busbw), or, of a history, "
        "what says which changes are accepted (default: baselines)",
    )
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="a .svg or a .png")
    add(
        "--width",
        type=whole_number(_LEAST_WIDTH),
        default=720,
        metavar="PIXELS",
        help=f"width of the picture, {_LEAST_WIDTH} to {_MOST_WIDTH} (default: 720); a PNG has two "
        "dots to a pixel",
    )
    themes = tuple(report.THEMES)
    add(
        "--theme",
        type=name_of(themes),
        metavar=shown(themes),
        default=themes[0],
        help="background of a PNG (default: light); an SVG follows the reader's",
    )


def run(options: argparse.Namespace) -> int:
    """Draw and write; the exit code. Raises CommandError."""
    output: Path = options.output
    form = output.suffix.lower()
    if form not in _FORMS:
        raise UsageError(f"--output: {refusal(output.suffix, _FORMS)}")
    if options.width > _MOST_WIDTH:
        raise UsageError(f"--width: {options.width}; accepted is {_LEAST_WIDTH} to {_MOST_WIDTH}")
    given = (options.results, options.published is not None, options.history is not None)
    if sum(map(bool, given)) != 1:
        raise UsageError(
            "what to draw: accepted are files of --results, --published=DEVICE or --history=DIR"
        )
    read = [*options.results, *_published_files(options)]
    check_file("--output", output, "a picture of busbw figure", report.is_picture, read)
    chart = _picture(options)
    size = report.Size(width=options.width)
    try:
        content: str | bytes = (
            report.svg(chart, size)
            if form == ".svg"
            else report.png(chart, size, theme=report.THEMES[options.theme])
        )
    except report.PictureError as error:
        raise CommandError(str(error)) from error
    return _write(output, content)


def _write(output: Path, content: str | bytes) -> int:
    try:
        writing.write(output, content)
    except OSError as error:
        print(f"busbw figure: --output: {writing.reason(error)}", file=sys.stderr)
        return 1
    return 0


def _picture(options: argparse.Namespace) -> report.Picture:
    if options.history is None:
        for name in ("machine", "case"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name}: is of a history; give --history=DIR with it")
    if options.published is not None:
        return published_chart(_published_files(options))
    return _nights(options) if options.history is not None else _sessions(options.results)


def _sessions(paths: Sequence[Path]) -> report.Picture:
    """The bandwidths of sessions that measured, or the memory of one that compiled."""
    sessions = [session_in(path) for path in paths]
    measured = [one for one in sessions if isinstance(one, report.Session)]
    names = ", ".join(map(str, paths))
    if len(measured) == len(sessions):
        with usage_error(ValueError, where=f"{names}: "):
            return report.bandwidth(measured)
    first = sessions[0]
    if len(sessions) > 1 or isinstance(first, report.Session):
        raise UsageError(f"{names}: what was compiled has a picture of its own; give one file")
    chart = report.memory(first)
    if chart is None:
        raise UsageError(f"{names}: no program was compiled")
    return chart


def _nights(options: argparse.Namespace) -> report.Picture:
    """A heat map of a machine's nights, or those of one case."""
    baselines = options.baselines or Path("baselines")
    machines = machines_in(options.history, baselines, named=options.machine)
    if len(machines) > 1:
        names = ", ".join(one.folder for one in machines)
        raise UsageError(f"--machine: {options.history} has {names}; accepted is one of them")
    (machine,) = machines
    if options.case is None:
        maps = report.ratios(machine)
        if options.part > len(maps):
            raise UsageError(f"--part: {options.part}; {machine.folder} has {len(maps)}")
        found: report.Heatmap = maps[options.part - 1]
        return found
    known = {one.case.name: one for one in reversed(machine.cases)}
    if options.case not in known:
        raise UsageError(f"--case: {refusal(options.case, tuple(known))}")
    return report.case_history(machine, known[options.case])


def _published_files(options: argparse.Namespace) -> list[Path]:
    """The tables of the device. Raises UsageError where there are none."""
    if options.published is None:
        return []
    with usage_error(baselines.BaselineError, where="--baselines: "):
        folder = options.baselines or shipped.baselines()
        baselines.check_folder(folder)
    every = published_files(folder)
    found = published_files(folder, options.published)
    if not found:
        known = tuple(dict.fromkeys(path.parent.parent.name for path in every))
        raise UsageError(
            f"--published: {refusal(options.published, known)}"
            if known
            else f"--published: there are no published figures in {folder}"
        )
    return found

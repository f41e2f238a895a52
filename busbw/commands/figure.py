"""`python -m busbw figure RESULTS...`: bandwidths of sessions, or published ones, as a picture.

Reads files of `--results`; the suffix of `-o` says whether SVG or PNG is written. Measures nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from busbw import baselines, inputs, report, shipped, writing
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

ORDER = 1
_FORMS = (".svg", ".png")
_LEAST_WIDTH, _MOST_WIDTH = 280, 4000


def add_to(commands: Commands) -> None:
    """The command's options."""
    parser = add_command(
        commands,
        "figure",
        run,
        help="busbw over payload as SVG or PNG, from files of --results",
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
        "--baselines",
        type=Path,
        default=shipped.baselines(),
        metavar="DIR",
        help="where published figures are (default: those shipped with busbw)",
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
    if bool(options.results) is (options.published is not None):
        raise UsageError("what to draw: accepted are files of --results, or --published=DEVICE")
    read = [*options.results, *_published_files(options)]
    check_file("--output", output, "a picture of busbw figure", report.is_picture, read)
    chart = _published(options) if options.published is not None else _measured(options.results)
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


def _measured(paths: Sequence[Path]) -> report.Chart:
    sessions = [_session(path) for path in paths]
    with usage_error(ValueError, where=f"{', '.join(map(str, paths))}: "):
        return report.bandwidth(sessions)


def _session(path: Path) -> report.Session:
    with usage_error(inputs.InputError, where=f"{path}: "):
        content = inputs.content(path)
    with usage_error(report.DocumentError):
        return report.read_results(content, str(path))


def _published_files(options: argparse.Namespace) -> list[Path]:
    """The tables of the device. Raises UsageError where there are none."""
    if options.published is None:
        return []
    with usage_error(baselines.BaselineError, where="--baselines: "):
        baselines.check_folder(options.baselines)
    every = sorted(options.baselines.glob("*/*/published.*.json"))
    found = [path for path in every if path.parent.parent.name == options.published]
    if not found:
        known = tuple(dict.fromkeys(path.parent.parent.name for path in every))
        raise UsageError(
            f"--published: {refusal(options.published, known)}"
            if known
            else f"--published: there are no published figures in {options.baselines}"
        )
    return found


def _published(options: argparse.Namespace) -> report.Chart:
    curves = []
    for path in _published_files(options):
        with usage_error(baselines.BaselineError):
            table = baselines.read_published(path)
        points = tuple(
            report.PublishedPoint(
                payload_bytes=one.payload_bytes,
                algbw_gb_per_s=one.algbw_gb_per_s,
                doubt=one.doubt,
            )
            for one in table.entries
        )
        curves.append(
            report.PublishedCurve(
                slice=table.slice,
                device_kind=table.device_kind,
                ranks=table.ranks,
                collective=table.collective,
                source=table.source,
                points=points,
            )
        )
    return report.published(curves)

"""`busbw figure RESULTS...`: draw bandwidths or a history of sessions as SVG or PNG.

The command reads files of `--results`, published bandwidths or a history, and measures nothing. The
suffix of the file of `-o` selects SVG or PNG.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from busbw import storage
from busbw.baselines.document import BaselineError
from busbw.baselines.store import read_published_table
from busbw.cli import (
    Subparsers,
    add_command,
    add_machine_option,
    check_output_file,
    command_error,
)
from busbw.cli.history import read_session_document, select_machine_histories
from busbw.extensions.page.charts import (
    Chart,
    DrawingError,
    draw_png,
    draw_svg,
    is_chart_file,
)
from busbw.extensions.page.curves import bandwidth_chart, curves_of, published_chart
from busbw.extensions.page.history import case_history_chart, heat_map, measured_cases
from busbw.history.levels import MachineHistory
from busbw.model.words import wrong_choice_text
from busbw.session.command_line import shipped_folder
from busbw.session.option import UsageError, as_usage_error, parse_path, parse_text

_DRAW_BY_SUFFIX: Mapping[str, Callable[[Chart], str | bytes]] = {".svg": draw_svg, ".png": draw_png}


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand `busbw figure` and its options to `commands`."""
    parser = add_command(
        commands,
        "figure",
        run,
        help="Draw bandwidths or a history as SVG or PNG",
        description="Draw one picture from files of busbw run --results=FILE, from published "
        "figures or from a history: bus bandwidth over payload, or times over "
        "sessions. Measures nothing.",
        example="busbw figure monday.json tuesday.json -o bandwidth.svg",
    )
    add = parser.add_argument
    add(
        "results",
        nargs="*",
        type=parse_path,
        metavar="RESULTS",
        help="Draw a curve for each of these files of busbw run --results=FILE",
    )
    add(
        "--published",
        type=parse_text,
        metavar="DEVICE",
        help="Draw published figures instead, by the folder of a device such as tpu-v2",
    )
    add(
        "--history",
        type=parse_path,
        metavar="DIR",
        help="Draw a heat map of the sessions of a history instead: all cases of one machine",
    )
    add_machine_option(parser)
    add(
        "--case",
        type=parse_text,
        metavar="NAME",
        help="With --history: draw the sessions of this case, such as "
        "jax.all_reduce.psum.float32.1M",
    )
    add(
        "--baselines",
        type=parse_path,
        metavar="DIR",
        help="Read published figures from this folder (default: those shipped with busbw) or, with "
        "--history, acknowledged changes (default: baselines)",
    )
    add(
        "-o",
        "--output",
        type=parse_path,
        required=True,
        metavar="FILE",
        help="Write the picture to FILE, as SVG or PNG by its suffix",
    )


def run(options: argparse.Namespace) -> int:
    """Draw the requested chart into the output file, and return the exit code 0.

    Raises OSError if the file cannot be written, CommandError if the chart cannot be drawn, and
    UsageError if the options are wrong or an input cannot be read.
    """
    chosen = (options.results, options.published is not None, options.history is not None)
    if sum(map(bool, chosen)) != 1:
        raise UsageError("expected files of --results, --published=DEVICE or --history=DIR")
    suffix = options.output.suffix.lower()
    if suffix not in _DRAW_BY_SUFFIX:
        raise UsageError(f"--output: {wrong_choice_text(suffix, tuple(_DRAW_BY_SUFFIX))}")
    check_output_file(
        "--output",
        options.output,
        "a picture of busbw figure",
        is_chart_file,
        [*options.results, *(_published_bandwidth_files(options) if options.published else ())],
    )
    with command_error(DrawingError):
        storage.write(options.output, _DRAW_BY_SUFFIX[suffix](_requested_chart(options)))
    return 0


def _requested_chart(options: argparse.Namespace) -> Chart:
    """Return the chart that the options of `busbw figure` request.

    Raises UsageError if an option does not fit the others, or if an input cannot be read or drawn.
    """
    baselines = options.baselines or Path("baselines")
    machines = select_machine_histories(options.history, baselines, name=options.machine)
    if options.history is not None:
        return _history_chart(machines, options)
    if options.case is not None:
        raise UsageError("--case: expected --history=DIR with it")
    if options.published is not None:
        with as_usage_error(BaselineError):
            return published_chart(
                list(map(read_published_table, _published_bandwidth_files(options)))
            )
    sessions = [read_session_document(path) for path in options.results]
    # The sessions may have no bandwidth, or too many curves.
    with as_usage_error(ValueError, where=f"{', '.join(map(str, options.results))}: "):
        return bandwidth_chart([curve for session in sessions for curve in curves_of(session)])


def _history_chart(machines: Sequence[MachineHistory], options: argparse.Namespace) -> Chart:
    """Return a heat map of a machine's sessions or, with --case, a chart of one case's sessions.

    `machines` are the histories that --history and --machine select. Raises UsageError if
    `machines` has several histories, or if the machine lacks the case.
    """
    if len(machines) > 1:
        names = ", ".join(machine.folder for machine in machines)
        raise UsageError(f"--machine: expected one of {names}, which {options.history} has")
    (machine,) = machines
    if options.case is None:
        return heat_map(machine)
    cases = {history.case.name: history for history in reversed(measured_cases(machine))}
    if options.case not in cases:
        raise UsageError(f"--case: {wrong_choice_text(options.case, tuple(cases))}")
    return case_history_chart(machine, cases[options.case])


def _published_bandwidth_files(options: argparse.Namespace) -> list[Path]:
    """Return the paths of the files with published bandwidths of the device that --published names.

    Raises UsageError if the device has no such file.
    """
    folder = options.baselines or shipped_folder("baselines")
    files = sorted(folder.glob("*/*/published.*.json"))
    devices = sorted({path.parents[1].name for path in files})
    if options.published not in devices:
        raise UsageError(f"--published: {folder}: {wrong_choice_text(options.published, devices)}")
    return [path for path in files if path.parents[1].name == options.published]

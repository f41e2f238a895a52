"""`busbw figure RESULTS...`: draw bandwidths or sessions as SVG or PNG.

Reads files of `--results`, published figures or a history; the suffix of `-o` says whether SVG or
PNG is written. Measures nothing.
"""

from __future__ import annotations

import argparse
import glob
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_folder
from busbw.baselines.store import read_published
from busbw.cli import Commands, add_command, add_machine, check_file, command_error, write_file
from busbw.cli.sessions import read_session, select_machines
from busbw.extensions.page.curves import bandwidth, curves_of, published
from busbw.extensions.page.drawing import DrawingError, is_figure, png, svg
from busbw.extensions.page.figures import Figure
from busbw.extensions.page.history import case_history, heat_map
from busbw.model.words import wrong_choice_text
from busbw.report.reading import Session
from busbw.session.arguments import parse_path, parse_text
from busbw.session.errors import UsageError, usage_error
from busbw.session.files import shipped_folder

_FORMS: Mapping[str, Callable[[Figure], str | bytes]] = {".svg": svg, ".png": png}


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
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
    add_machine(parser)
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
        "--history, accepted changes (default: baselines)",
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
    chosen = (options.results, options.published is not None, options.history is not None)
    if sum(map(bool, chosen)) != 1:
        raise UsageError("expected files of --results, --published=DEVICE or --history=DIR")
    tables = [] if options.published is None else _published_files(options)
    read = [*options.results, *tables]
    return write_figure(_figure(options, tables), "--output", options.output, read)


def write_figure(figure: Figure, option: str, output: Path, inputs: Sequence[Path]) -> int:
    """Write a figure into the file of `option`, as SVG or PNG by its suffix.

    Raises UsageError for another suffix, and for a file that holds something else.
    """
    draw = _FORMS.get(output.suffix.lower())
    if draw is None:
        raise UsageError(f"{option}: {wrong_choice_text(output.suffix, tuple(_FORMS))}")
    check_file(option, output, "a picture of busbw figure", is_figure, inputs)
    with command_error(DrawingError):
        content = draw(figure)
    return write_file(content, output, f"{option}: ")


def _figure(options: argparse.Namespace, tables: Sequence[Path]) -> Figure:
    if options.history is not None:
        return _sessions_of_machine(options)
    if options.case is not None:
        raise UsageError("--case: expected --history=DIR with it")
    select_machines(None, Path(), name=options.machine)
    if not tables:
        return _sessions(options.results)
    with usage_error(BaselineError):
        return published([read_published(path) for path in tables])


def _sessions(paths: Sequence[Path]) -> Figure:
    """Return the bandwidths of sessions."""
    sessions = [read_session(path) for path in paths]
    measured = [session for session in sessions if isinstance(session, Session)]
    with usage_error(ValueError, where=f"{', '.join(map(str, paths))}: "):
        return bandwidth([curve for session in measured for curve in curves_of(session)])


def _sessions_of_machine(options: argparse.Namespace) -> Figure:
    """Return a heat map of a machine's sessions, or the sessions of one case."""
    baselines = options.baselines or Path("baselines")
    machines = select_machines(options.history, baselines, name=options.machine)
    if len(machines) > 1:
        names = ", ".join(machine.folder for machine in machines)
        raise UsageError(f"--machine: expected one of {names}, which {options.history} has")
    (machine,) = machines
    if options.case is None:
        return heat_map(machine)
    cases = {history.case.name: history for history in reversed(machine.cases)}
    if options.case not in cases:
        raise UsageError(f"--case: {wrong_choice_text(options.case, tuple(cases))}")
    return case_history(machine, cases[options.case])


def _published_files(options: argparse.Namespace) -> list[Path]:
    """Return the tables of the device. Raises UsageError where there are none."""
    with usage_error(BaselineError, where="--baselines: "):
        folder = options.baselines or shipped_folder("baselines")
        check_folder(folder)
    tables = sorted(folder.glob(f"{glob.escape(options.published)}/*/published.*.json"))
    if not tables:
        devices = sorted({path.parents[1].name for path in folder.glob("*/*/published.*.json")})
        if not devices:
            raise UsageError(f"--published: there are no published figures in {folder}")
        raise UsageError(f"--published: {wrong_choice_text(options.published, devices)}")
    return tables

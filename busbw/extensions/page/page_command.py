"""`busbw page RESULTS...`: write sessions and their history as one HTML page.

The command reads files of `--results` and a folder of `--history`, and measures nothing.
"""

from __future__ import annotations

import argparse

from busbw.cli import (
    Commands,
    add_baselines_option,
    add_command,
    add_machine_option,
    check_output_file,
    command_error,
    write_file,
)
from busbw.cli.sessions import read_session, select_machine_histories
from busbw.extensions.page.charts import DrawingError
from busbw.extensions.page.page import is_page, make_page, render_html
from busbw.session.option import UsageError, parse_path


def add_to(commands: Commands) -> None:
    """Add the subcommand and its options to `commands`."""
    parser = add_command(
        commands,
        "page",
        run,
        help="Write an HTML page with the tables and charts of sessions and their history",
        description="Write one HTML file with the tables and charts of sessions, from files of "
        "busbw run --results=FILE, and of their history. The page loads nothing from the network "
        "and runs no script. Measures nothing.",
        example="busbw page results.json --history=history -o busbw.html",
    )
    add = parser.add_argument
    add(
        "results",
        nargs="*",
        type=parse_path,
        metavar="RESULTS",
        help="Files that busbw run --results=FILE wrote",
    )
    add("--history", type=parse_path, metavar="DIR", help="Show all sessions of this history too")
    add_machine_option(parser, " (default: those of the results, or all)")
    add_baselines_option(parser)
    add(
        "-o",
        "--output",
        type=parse_path,
        required=True,
        metavar="FILE",
        help="Write the page to FILE, for example busbw.html",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit code."""
    if not options.results and options.history is None:
        raise UsageError("expected files of --results, --history=DIR, or both")
    check_output_file("--output", options.output, "a page of busbw page", is_page, options.results)
    sessions = [read_session(path) for path in options.results]
    machines = select_machine_histories(
        options.history, options.baselines, name=options.machine, sessions=sessions
    )
    with command_error(DrawingError):
        text = render_html(make_page(sessions, machines))
    return write_file(text, options.output, "busbw page: --output: ")

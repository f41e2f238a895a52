"""`busbw page RESULTS...`: write sessions and their history as one HTML page.

Reads files of `--results` and a folder of `--history`; the page loads nothing and runs no script.
Measures nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from busbw.commands import (
    BASELINES,
    MACHINE,
    RESULTS,
    Commands,
    UsageError,
    add_command,
    check_file,
    command_error,
    write_file,
)
from busbw.commands.sessions import machines_in, session_in
from busbw.extensions.page.drawing import DrawingError
from busbw.extensions.page.page import html, is_page, page
from busbw.session.option import file_option, folder_option

ORDER = 1

_OPTIONS = (
    RESULTS,
    folder_option("history", "Show all sessions of this history too"),
    replace(MACHINE, help=f"{MACHINE.help} (default: those of the results, or all)"),
    BASELINES,
    file_option(
        "output", "Write the page to FILE, for example busbw.html", short="-o", required=True
    ),
)


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "page",
        run,
        *_OPTIONS,
        help="Write an HTML page with the tables and charts of sessions and their history",
        description="Write one HTML file with the tables and charts of sessions, from files of "
        "busbw run --results=FILE, and of their history. The page loads nothing from the network "
        "and runs no script. Measures nothing.",
        example="busbw page results.json --history=history -o busbw.html",
    )


def run(options: argparse.Namespace) -> int:
    if not options.results and options.history is None:
        raise UsageError("what to show: accepted are files of --results, --history=DIR, or both")
    if options.machine is not None and options.history is None:
        raise UsageError("--machine: is of a history; give --history=DIR with it")
    check_file("--output", options.output, "a page of busbw page", is_page, options.results)
    sessions = [session_in(path) for path in options.results]
    machines = machines_in(
        options.history, options.baselines, named=options.machine, sessions=sessions
    )
    with command_error(DrawingError):
        text = html(page(sessions, machines))
    return write_file(text, options.output, "busbw page: --output: ")

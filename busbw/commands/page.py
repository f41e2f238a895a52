"""`python -m busbw page RESULTS...`: sessions and their history as one HTML page.

Reads files of `--results` and a folder of `--history`; the page loads nothing and runs no script.
Measures nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from busbw import report

from .command import CommandError, Commands, UsageError, add_command, check_file, write_file
from .documents import session_in

ORDER = 1


def add_to(commands: Commands) -> None:
    """The command's options."""
    parser = add_command(
        commands,
        "page",
        run,
        help="sessions and their history as one HTML page, from files of --results",
        description=__doc__ or "",
    )
    add = parser.add_argument
    add("results", nargs="*", type=Path, metavar="RESULTS", help="files of --results")
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="the page, such as a.html")


def run(options: argparse.Namespace) -> int:
    """Write the page; the exit code. Raises CommandError."""
    if not options.results:
        raise UsageError("what to show: accepted are files of --results")
    check_file("--output", options.output, "a page of busbw page", report.is_page, options.results)
    sessions = [session_in(path) for path in options.results]
    try:
        text = report.html(report.page(sessions))
    except report.PictureError as error:
        raise CommandError(str(error)) from error
    return write_file(text, options.output, "busbw page: --output: ")

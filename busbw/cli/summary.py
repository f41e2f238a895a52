"""`busbw summary RESULTS`: print the result of a session as Markdown.

For the summary of a workflow run, an issue or a mail, from a file of `--results` and the folder of
`--history`. In a workflow (GITHUB_ACTIONS) what failed is annotated, too, on standard error.
"""

from __future__ import annotations

import argparse
import os
import sys

from busbw.history.failing import failed_since_texts
from busbw.history.levels import change_texts
from busbw.report.summary import summary, workflow_commands
from busbw.session.arguments import parse_path

from . import Commands, add_baselines, add_command, write_workflow_commands
from .sessions import read_session, select_machines


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = add_command(
        commands,
        "summary",
        run,
        help="Print the result of a session as Markdown, for an issue or a mail",
        description="Print the result of a session as Markdown, for the summary of a workflow "
        "run, an issue or a mail. In GitHub Actions failures are annotated too, on standard "
        "error.",
        example="busbw summary results.json --history=history > summary.md",
    )
    results = "The file that busbw run --results=FILE wrote"
    parser.add_argument("results", type=parse_path, metavar="RESULTS", help=results)
    history = "Say since when each case fails, and what changed then, from this history"
    parser.add_argument("--history", type=parse_path, metavar="DIR", help=history)
    add_baselines(parser)


def run(options: argparse.Namespace) -> int:
    session = read_session(options.results)
    machines = select_machines(options.history, options.baselines, sessions=[session])
    histories = {f"History of {machine.folder}": change_texts(machine) for machine in machines}
    sys.stdout.write(summary(session, failed_since_texts(session.verdicts, machines), histories))
    if os.environ.get("GITHUB_ACTIONS"):
        write_workflow_commands(workflow_commands(session.verdicts, session.answer))
    return 0

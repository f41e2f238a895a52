"""`busbw summary RESULTS`: print the result of a session as Markdown.

The Markdown is for the summary of a workflow run, an issue or a mail. The command reads a file of
`--results` and the folder of `--history`. In a GitHub workflow (GITHUB_ACTIONS) it also annotates
the failures, on standard error.
"""

from __future__ import annotations

import argparse
import os
import sys

from busbw.history.texts import change_texts, failing_since_texts_of_verdicts
from busbw.report.summary import annotation_commands, markdown_summary
from busbw.session.option import parse_path

from . import Commands, add_baselines_option, add_command, write_workflow_commands
from .sessions import read_session, select_machine_histories


def add_to(commands: Commands) -> None:
    """Add the subcommand and its options to `commands`."""
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
    add_baselines_option(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit code."""
    session = read_session(options.results)
    machines = select_machine_histories(options.history, options.baselines, sessions=[session])
    histories = {f"History of {machine.folder}": change_texts(machine) for machine in machines}
    sys.stdout.write(
        markdown_summary(
            session, failing_since_texts_of_verdicts(session.verdicts, machines), histories
        )
    )
    if os.environ.get("GITHUB_ACTIONS"):
        write_workflow_commands(annotation_commands(session.verdicts, session.session_verdict))
    return 0

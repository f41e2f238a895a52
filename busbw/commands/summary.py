"""`busbw summary RESULTS`: what a session found, as Markdown for who was asleep.

For the summary of a workflow run, an issue or a mail, from a file of `--results` and the folder of
`--history`. In a workflow (GITHUB_ACTIONS) what failed is annotated, too, on standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from busbw.page.summary import summary, workflow_commands
from busbw.session.option import folder_option

from . import BASELINES, Commands, add_command, machines_in, session_in

ORDER = 1

_HISTORY = folder_option("history", "the folder of --history: since when, and what changed")


def add_to(commands: Commands) -> None:
    words = "what a session found as Markdown, from a file of --results"
    parser = add_command(
        commands, "summary", run, _HISTORY, BASELINES, help=words, description=__doc__
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="a file of --results")


def run(options: argparse.Namespace) -> int:
    session = session_in(options.results)
    machines = machines_in(options.history, options.baselines, of=[session])
    sys.stdout.write(summary(session, machines))
    if os.environ.get("GITHUB_ACTIONS"):
        for line in workflow_commands(session.verdicts, session.answer):
            print(line, file=sys.stderr)
    return 0

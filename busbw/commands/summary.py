"""`busbw summary RESULTS`: what a session found, as Markdown for who was asleep.

For the summary of a workflow run, an issue or a mail, from a file of `--results` and the folder of
`--history`. In a workflow (GITHUB_ACTIONS) what failed is annotated, too, on standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

from busbw.page.summary import summary, workflow_commands
from busbw.session.option import folder_option

from . import (
    BASELINES,
    RESULTS,
    Commands,
    add_command,
    machines_in,
    session_in,
    write_workflow_commands,
)

ORDER = 1

_OPTIONS = (
    replace(RESULTS, help="a file of --results", nargs=""),
    folder_option("history", "the folder of --history: since when, and what changed"),
    BASELINES,
)


def add_to(commands: Commands) -> None:
    words = "what a session found as Markdown, from a file of --results"
    add_command(commands, "summary", run, *_OPTIONS, help=words, description=__doc__)


def run(options: argparse.Namespace) -> int:
    session = session_in(options.results)
    machines = machines_in(options.history, options.baselines, of=[session])
    sys.stdout.write(summary(session, machines))
    if os.environ.get("GITHUB_ACTIONS"):
        write_workflow_commands(workflow_commands(session.verdicts, session.answer))
    return 0

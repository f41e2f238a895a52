"""`busbw summary RESULTS`: print the result of a session as Markdown.

For the summary of a workflow run, an issue or a mail, from a file of `--results` and the folder of
`--history`. In a workflow (GITHUB_ACTIONS) what failed is annotated, too, on standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

from busbw.history.changes import change_texts
from busbw.history.failing import failed_since
from busbw.report.summary import summary, workflow_commands
from busbw.session.option import folder_option

from . import (
    BASELINES,
    RESULTS,
    Commands,
    add_command,
    write_workflow_commands,
)
from .sessions import machines_in, session_in

ORDER = 1

_OPTIONS = (
    replace(RESULTS, help="The file that busbw run --results=FILE wrote", nargs=""),
    folder_option(
        "history", "Say since when each case fails, and what changed then, from this history"
    ),
    BASELINES,
)


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "summary",
        run,
        *_OPTIONS,
        help="Print the result of a session as Markdown, for an issue or a mail",
        description="Print the result of a session as Markdown, for the summary of a workflow "
        "run, an issue or a mail. In GitHub Actions failures are annotated too, on standard "
        "error.",
        example="busbw summary results.json --history=history > summary.md",
    )


def run(options: argparse.Namespace) -> int:
    session = session_in(options.results)
    machines = machines_in(options.history, options.baselines, sessions=[session])
    histories = {f"History of {machine.folder}": change_texts(machine) for machine in machines}
    sys.stdout.write(summary(session, failed_since(session.verdicts, machines), histories))
    if os.environ.get("GITHUB_ACTIONS"):
        write_workflow_commands(workflow_commands(session.verdicts, session.answer))
    return 0

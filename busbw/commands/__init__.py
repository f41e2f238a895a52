"""What can be asked for without pytest: `python -m busbw COMMAND`, one file per command.

A command reads options and files, hands values to the rooms that know, prints what `report`
makes of them, and returns an exit code: 0 all was fine, 1 something was not, 2 usage. Nobody
imports a command but the door, `busbw/__main__.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import compilers, estimate, parameter_server, prediction, tpu_v2, trace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (the process's own if None) name; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m busbw",
        description="what busbw can do without pytest",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    trace.add_to(commands)
    compilers.add_to(commands)
    estimate.add_to(commands)
    tpu_v2.add_to(commands)
    parameter_server.add_to(commands)
    prediction.add_to(commands)
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code

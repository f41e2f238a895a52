"""`busbw run [OPTIONS]`: pytest with busbw's plugin and, unless tests are named, its promises.

This process becomes pytest's, so that its terminal, its signals and its exit code are pytest's own.
"""

from __future__ import annotations

import argparse
import os
import sys

from .command import Commands

ORDER = -2

# -B: no file is written beside installed ones.
_PYTEST = ("-B", "-m", "pytest", "-p", "busbw.plugin", "-p", "busbw.plugin.promises")


def add_to(commands: Commands) -> None:
    """The command, whose options are all pytest's."""
    parser = commands.add_parser(
        "run",
        help="measure and judge; takes pytest's options: busbw run --help",
        # No argument begins with this, so that all are taken as they are.
        prefix_chars="\0",
        add_help=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument("options", nargs=argparse.REMAINDER)


def run(options: argparse.Namespace) -> int:
    """Become pytest."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *_PYTEST, *options.options])

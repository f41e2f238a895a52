"""`busbw stack`: list the locked reference stacks."""

from __future__ import annotations

import argparse
from pathlib import Path

from busbw.cli import Commands, add_command, command_error
from busbw.extensions.stacks.reference import read_lock
from busbw.extensions.stacks.uv import StackError
from busbw.model.words import plural
from busbw.session.option import UsageError, parse_path


def add_to(commands: Commands) -> None:
    """Add the command `stack` and its options to `commands`."""
    parser = add_command(
        commands,
        "stack",
        run,
        help="List locked reference stacks",
        description="List reference stacks. busbw run --update-baselines locks the Python, "
        "packages and flags that it measured; --against=baseline builds that environment again "
        "with uv, and keeps it in a cache.",
        example="busbw stack",
    )
    parser.add_argument(
        "--baselines",
        type=parse_path,
        default=Path("baselines"),
        metavar="DIR",
        help="Read the locks beside the baselines in DIR (default: baselines)",
    )


def run(options: argparse.Namespace) -> int:
    """Print a line for each lock beside the baselines, and return the exit code."""
    if not options.baselines.is_dir():
        raise UsageError(f"--baselines: there is no folder {options.baselines}")
    paths = sorted(options.baselines.glob("*/*/pylock.*.toml"))
    if not paths:
        print("no stack is locked: busbw run --update-baselines locks what it measures")
    for path in paths:
        with command_error(StackError):
            stack = read_lock(path)
        print(
            f"{stack.digest}  {path}: Python {stack.python}, "
            f"{plural(len(stack.records), 'package')}, locked {stack.date}"
        )
    return 0

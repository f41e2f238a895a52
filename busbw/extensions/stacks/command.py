"""`busbw stack list`: list the locked reference stacks, and the folders in which they are built."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from busbw.cli import Commands, add_command, command_error
from busbw.extensions.stacks import reference
from busbw.extensions.stacks.options import stack_cache_folder
from busbw.extensions.stacks.uv import StackError
from busbw.model.words import plural
from busbw.session.arguments import parse_path
from busbw.session.errors import UsageError, usage_error


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = add_command(
        commands,
        "stack",
        run,
        help="List locked reference stacks",
        description="List reference stacks. busbw run --update-baselines locks the Python, "
        "packages and flags that it measured; --against=baseline builds that environment again "
        "with uv, and keeps it in a cache.",
        example="busbw stack list",
    )
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        choices=("list",),
        metavar="ACTION",
        help="list: show the locked stacks (default)",
    )
    add(
        "--baselines",
        type=parse_path,
        default=Path("baselines"),
        metavar="DIR",
        help="Read the locks beside the baselines in DIR (default: baselines)",
    )
    add(
        "--stack-cache",
        type=parse_path,
        metavar="DIR",
        help="Where stacks are built. Default: busbw in the user's cache folder",
    )


def run(options: argparse.Namespace) -> int:
    with usage_error(ValueError):
        cache = stack_cache_folder(str(options.stack_cache or ""))
    if not options.baselines.is_dir():
        raise UsageError(f"--baselines: there is no folder {options.baselines}")
    with command_error(StackError):
        for line in _stack_lines(options.baselines, cache):
            print(line)
    return 0


def _stack_lines(baselines: Path, cache: Path) -> Iterator[str]:
    """Yield a line for each lock beside the baselines, and for each built stack without a lock.

    `cache` is the folder with the built stacks. Raises StackError if a lock cannot be read.
    """
    paths = sorted(baselines.glob(reference.LOCK_PATTERN.format("*")))
    if not paths:
        yield "no stack is locked: busbw run --update-baselines locks what it measures"
    needed = set()
    for path in paths:
        stack = reference.read_lock(path)
        folder = cache / "stacks" / stack.digest
        needed.add(folder)
        state = str(folder) if folder.exists() else "not built"
        yield (
            f"{stack.digest}  {path}: Python {stack.python}, "
            f"{plural(len(stack.records), 'package')}, locked {stack.date}: {state}"
        )
    for folder in sorted(set(cache.glob("stacks/*")) - needed):
        yield f"{folder} belongs to no lock in {baselines}; you can delete it"

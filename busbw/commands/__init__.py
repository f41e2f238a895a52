"""Commands that need no pytest: `python -m busbw COMMAND`.

A command is a module in this room or a folder in `studies` that has `add_to`, and is found by being
there. It reads options and files, passes values to other rooms, prints the results, and returns an
exit code: 0 all was fine, 1 something was not, 2 usage. Nothing imports a command; what several of
them share is here, too.
"""

from __future__ import annotations

import argparse
import importlib
import math
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

from .command import CommandError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (the process's own if None) name; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m busbw",
        description="commands of busbw that do not need pytest",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for command in found():
        command.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except CommandError as error:
        print(f"busbw {options.command}: {error}", file=sys.stderr)
        return error.exit_code
    return code


def found() -> list[ModuleType]:
    """The commands of this room and all studies, as --help lists them: by ORDER, then by name."""
    # Studies import this package.
    from busbw import studies

    here = [
        importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__)
    ]
    commands = [one for one in (*here, *studies.found()) if hasattr(one, "add_to")]
    return sorted(commands, key=lambda one: (getattr(one, "ORDER", math.inf), one.__name__))

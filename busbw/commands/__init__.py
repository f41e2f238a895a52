"""Commands: `busbw COMMAND`, which `python -m busbw COMMAND` is, too.

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
from collections.abc import Callable, Sequence
from types import ModuleType

from busbw import __version__, wire
from busbw.model.words import refusal

from .command import CommandError


def write_escaped(write: Callable[[str], int], text: str) -> int:
    """So that it moves no terminal; the progress lines of studies begin with a carriage return."""
    begin = text[: text.startswith("\r")]
    return write(begin + wire.printable(text[len(begin) :]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="busbw",
        description="measures all-reduce, and says whether it got slower",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"busbw {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for command in found():
        command.add_to(commands)
    asked = sys.argv[1:] if arguments is None else arguments
    if asked and not asked[0].startswith("-") and asked[0] not in commands.choices:
        parser.error(f"there is no command {refusal(asked[0], tuple(commands.choices))}")
    options = parser.parse_args(asked)
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

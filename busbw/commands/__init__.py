"""The `busbw` command: its frame, its subcommands `run`, `history` and `summary`, shared functions.

A subcommand is a module with a function `add_to`, in this package or declared by an extension. It
reads options and files, passes values to other packages, prints the results, and returns an exit
code: 0 success, 1 failure, 2 wrong usage. The file that an option names is checked before a command
does anything, so that no file of a user is lost.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import math
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from busbw import __version__, extensions, storage, wire
from busbw.session import os_limits
from busbw.session.option import Option, file_option, folder_option

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class CommandError(Exception):
    """Why a command ends without an answer; the message is the sentence that the user reads."""

    exit_code = 1


class UsageError(CommandError):
    """Invalid options or files, or a file that must not be overwritten."""

    exit_code = 2


@contextlib.contextmanager
def raised_as(
    error_type: type[CommandError], *kinds: type[Exception], where: str = ""
) -> Iterator[None]:
    """Turn exceptions of `kinds` into `error_type`, with a message that begins with `where`."""
    try:
        yield
    except kinds as error:
        raise error_type(f"{where}{error}") from error


usage_error = functools.partial(raised_as, UsageError)
command_error = functools.partial(raised_as, CommandError)

MACHINE = Option(
    name="machine", metavar="NAME", help="Read only this folder of DIR, such as tpu-v5-lite/4r"
)
BASELINES = folder_option(
    "baselines",
    "Read accepted changes from acknowledged.toml in this folder",
    default="baselines",
)
RESULTS = file_option(
    "results", "Files that busbw run --results=FILE wrote", metavar="RESULTS", nargs="*"
)


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *options: Option,
    help: str,
    description: str | None,
    example: str = "",
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"Example: {example}" if example else None,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    add_options(parser, options)
    return parser


def add_options(parser: argparse._ActionsContainer, options: Iterable[Option]) -> None:
    """Add what is declared to a parser or to a group of one."""
    for option in options:
        arguments = option.arguments
        if not option.flag:
            arguments |= {"type": argument_type(option.given), "default": option.default or None}
        if option.required:
            arguments["required"] = True
        if option.nargs:
            arguments["nargs"] = option.nargs
        names = (
            [option.name]
            if option.nargs is not None
            else [*filter(None, [option.short]), option.flag_name]
        )
        parser.add_argument(*names, **arguments)


def argument_type(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return a parser for argparse, which hides the message of a ValueError."""

    def parse_argument(text: str) -> object:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_argument


def check_file(
    option: str,
    path: Path | None,
    what: str,
    ours: Callable[[str], bool],
    inputs: Iterable[Path] = (),
) -> None:
    """Raise UsageError unless `path` may be written: as `check_output`, with the option's name."""
    if path is not None:
        with usage_error(storage.InputError, storage.OutputError, where=f"{option}: "):
            storage.check_output(path, kind=what, is_kind=ours, inputs=inputs)


def json_with(*keys: str) -> Callable[[str], bool]:
    """Recognize JSON: an object with these keys, or a list of such objects."""

    def is_ours(text: str) -> bool:
        try:
            document = json.loads(text)
        except ValueError:
            return False
        rows = document if isinstance(document, list) else [document]
        return bool(rows) and all(isinstance(r, dict) and set(keys) <= set(r) for r in rows)

    return is_ours


def write_file(content: str | bytes, path: Path, prefix: str = "") -> int:
    """Write a file; the exit code: 1, with a sentence after `prefix`, where it cannot be."""
    try:
        storage.write(path, content)
    except OSError as error:
        print(f"{prefix}{storage.error_text(error)}", file=sys.stderr)
        return 1
    return 0


def write_escaped(write: Callable[[str], int], text: str) -> int:
    """Write `text` so that it moves no terminal and is no command of a workflow on GitHub."""
    return write(wire.without_commands(wire.printable(text)))


def write_workflow_commands(lines: Iterable[str]) -> None:
    """Write commands to GitHub on standard error, past `write_escaped`, which lets none through."""
    sys.stderr.flush()
    sys.stderr.buffer.write("".join(f"{line}\n" for line in lines).encode())
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="busbw",
        description="Measure all-reduce with JAX and TensorFlow, and fail when it becomes slower. "
        "Begin with busbw run; busbw COMMAND --help explains a command.",
        epilog="Example: busbw run --frameworks=jax --payloads=1K:4M --launches=2",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"busbw {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    words = sys.argv[1:] if arguments is None else arguments
    modules = find_commands(words[0] if words else "") or find_commands()
    for command in modules:
        command.add_to(commands)
    words, passed = parted(modules[0], words)
    options = parser.parse_args(words)
    options.passed = passed
    try:
        with os_limits.explained_as(CommandError):
            code: int = options.run(options)
    except CommandError as error:
        print(f"busbw {options.command}: {error}", file=sys.stderr)
        return error.exit_code
    return code


def parted(command: ModuleType, words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split the words of a command at ``--`` if the command passes the words after that on."""
    passes = getattr(command, "PASSES_ON", False) and "--" in words
    end = words.index("--") if passes else len(words)
    return words[:end], words[end + 1 :]


def find_commands(named: str = "") -> list[ModuleType]:
    """Return the modules of all commands as --help lists them: by ORDER, then by name.

    With the name of a command, return its module alone: packages that others need may be missing.
    """
    core_modules = {
        module.name: importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
        if named in ("", module.name)
    }
    modules = [
        module for _, module in sorted((core_modules | extensions.table("COMMANDS", named)).items())
    ]
    commands = [module for module in modules if hasattr(module, "add_to")]
    return sorted(commands, key=lambda module: getattr(module, "ORDER", math.inf))

"""The `busbw` command: its subcommands `run`, `history` and `summary`, and those of extensions.

A subcommand is a module with a function `add_to`, in this package or declared by an extension. It
reads options and files, passes values to other packages, prints the results, and returns an exit
code: 0 success, 1 failure, 2 wrong usage. The file that an option names is checked before a command
does anything, so that no file of a user is lost.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from busbw import __version__, extensions, storage, wire
from busbw.session.arguments import parse_path, parse_text
from busbw.session.errors import UsageError, raise_with_remedy, usage_error

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_CORE = ("run", "history", "summary")


class CommandError(Exception):
    """A command that ends without a result; the message is for the user."""


command_error = functools.partial(storage.reraise_as, CommandError)


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str | None,
    example: str = "",
) -> argparse.ArgumentParser:
    """Add a subcommand that `run` carries out, and return its parser."""
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"Example: {example}" if example else None,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def add_baselines(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--baselines",
        type=parse_path,
        default=Path("baselines"),
        metavar="DIR",
        help="Read accepted changes from acknowledged.toml in this folder (default: baselines)",
    )


def add_machine(parser: argparse.ArgumentParser, default: str = "") -> None:
    machine = "Read only this folder of the history, such as tpu-v5-lite/4r"
    parser.add_argument("--machine", type=parse_text, metavar="NAME", help=machine + default)


def check_file(
    option: str,
    path: Path | None,
    kind: str,
    is_kind: Callable[[str], bool],
    inputs: Iterable[Path] = (),
) -> None:
    """Raise UsageError unless `path` may be written: as `check_output`, with the option's name."""
    if path is not None:
        with usage_error(storage.InputError, storage.OutputError, where=f"{option}: "):
            storage.check_output(path, kind=kind, is_kind=is_kind, inputs=inputs)


def json_with(*keys: str) -> Callable[[str], bool]:
    """Recognize JSON: an object with these keys, or a list of such objects."""

    def is_kind(text: str) -> bool:
        try:
            document = json.loads(text)
        except ValueError:
            return False
        rows = document if isinstance(document, list) else [document]
        return bool(rows) and all(isinstance(r, dict) and set(keys) <= set(r) for r in rows)

    return is_kind


def write_file(content: str | bytes, path: Path, prefix: str = "") -> int:
    """Write a file; return 1, with a sentence after `prefix`, if it cannot be written, else 0."""
    try:
        storage.write(path, content)
    except OSError as error:
        print(f"{prefix}{storage.os_error_text(error)}", file=sys.stderr)
        return 1
    return 0


def write_escaped(write: Callable[[str], int], text: str) -> int:
    """Write `text` so that it moves no terminal and is no command of a workflow on GitHub."""
    return write(wire.without_workflow_commands(wire.escape_unprintable(text)))


def write_workflow_commands(lines: Iterable[str]) -> None:
    """Write commands to GitHub on standard error, past `write_escaped`, which lets none through."""
    sys.stderr.flush()
    sys.stderr.buffer.write("".join(f"{line}\n" for line in lines).encode())
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` name, by default those of the process."""
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
    for module in modules:
        module.add_to(commands)
    words, passed = split_passed(modules[0], words)
    options = parser.parse_args(words)
    options.passed = passed
    try:
        with raise_with_remedy(CommandError):
            code: int = options.run(options)
    except (CommandError, UsageError) as error:
        print(f"busbw {options.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return code


def split_passed(command: ModuleType, words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split words at ``--`` if the command passes the words after that on to other commands."""
    is_split = getattr(command, "PASSES_ON", False) and "--" in words
    end = words.index("--") if is_split else len(words)
    return words[:end], words[end + 1 :]


def find_commands(name: str = "") -> list[ModuleType]:
    """Return the modules of all commands in the order of --help, or the module of one command.

    The other modules are not imported then: packages that they need may be missing.
    """
    core_modules = [import_module(f"{__name__}.{core}") for core in _CORE if name in ("", core)]
    return [*core_modules, *extensions.load_table("COMMANDS", name).values()]

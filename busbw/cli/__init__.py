"""The `busbw` command with its subcommands: `run`, `history`, `summary`, and extensions' commands.

A subcommand is a module in this package, or a module that an extension declares. The module has two
functions. `add_subcommand` adds the parser of the subcommand. `run` reads options and files, calls
other packages, prints the results, and returns the exit code: 0 for success, 1 for failure, 2 for
wrong usage. A command checks its output files before it does anything, so that no file of the user
is lost. If a module sets `PASSES_OPTIONS_ON` to True, the words after ``--`` are meant for another
command, and `run` gets them as `options.passed`.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from busbw import __version__, extensions, storage, wire
from busbw.session.option import UsageError, as_usage_error, parse_path, parse_text

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_CORE_COMMANDS = ("run", "history", "summary")


class CommandError(Exception):
    """The error of a command that cannot give a result. The message tells the user the reason."""


# `with command_error(SomeError):` turns a SomeError into a CommandError.
command_error = functools.partial(storage.reraise_as, CommandError)


def add_command(
    commands: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str | None,
    example: str = "",
) -> argparse.ArgumentParser:
    """Add a subcommand of `busbw`, and return its parser, to which options can be added.

    Args:
        commands: The subcommands so far.
        name: The name of the subcommand.
        run: The function that runs the subcommand and returns the exit code.
        help: A line for `busbw --help`.
        description: The text above the options in `busbw NAME --help`; None for no text.
        example: A command line that is shown below the options; "" for no example.

    """
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"Example: {example}" if example else None,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def add_baselines_option(parser: argparse.ArgumentParser) -> None:
    """Add the option --baselines, which names the folder with the file `acknowledged.toml`."""
    parser.add_argument(
        "--baselines",
        type=parse_path,
        default=Path("baselines"),
        metavar="DIR",
        help="Read acknowledged changes from acknowledged.toml in this folder (default: baselines)",
    )


def add_machine_option(parser: argparse.ArgumentParser, help_ending: str = "") -> None:
    """Add the option --machine, which names the folder of a machine in the history.

    `help_ending` is added to the help of the option, such as `` (default: all)``.
    """
    parser.add_argument(
        "--machine",
        type=parse_text,
        metavar="NAME",
        help=f"Read only this folder of the history, such as tpu-v5-lite/4r{help_ending}",
    )


def check_output_file(
    option: str,
    path: Path | None,
    kind: str,
    recognizes_text: Callable[[str], bool],
    inputs: Iterable[Path] = (),
) -> None:
    """Raise UsageError if a command would overwrite a file of the user by mistake.

    A command may write a new file, and overwrite an empty file or a file of the same kind.

    Args:
        option: The option that names the file, for the error message.
        path: The file to write; None if the command writes no file.
        kind: The kind of file, for the error message, such as ``a page of busbw page``.
        recognizes_text: A function that returns whether the text of a file is of this kind.
        inputs: The files that the command reads, which must not be overwritten.

    """
    if path is not None:
        with as_usage_error(storage.InputError, storage.OutputError, where=f"{option}: "):
            storage.check_output_file(
                path, kind=kind, recognizes_text=recognizes_text, inputs=inputs
            )


def print_progress(text: str) -> None:
    """Print `text` to standard error as a line that begins with ``busbw: ``.

    The prefix is not repeated if `text` already begins with it.
    """
    print(f"busbw: {text.removeprefix('busbw: ')}", file=sys.stderr, flush=True)


def write_escaped(write: Callable[[str], int], text: str) -> int:
    """Write `text` with `write`, after control characters and workflow commands are escaped.

    A workflow command is a line that GitHub Actions would execute, such as ``::error::``. Returns
    the result of `write`, which is the number of written characters.
    """
    return write(wire.escape_workflow_commands(wire.escape_unprintable(text)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand that the first argument names, and return the exit code.

    If `arguments` is None, the arguments of this process are used. An error of the subcommand is
    printed on standard error, and gives the exit code 1, or 2 for wrong usage. Raises
    BrokenPipeError if the reader of standard output has ended.
    """
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
    modules = find_command_modules(words[0] if words else "") or find_command_modules()
    for module in modules:
        module.add_subcommand(commands)
    is_split = getattr(modules[0], "PASSES_OPTIONS_ON", False) and "--" in words
    end = words.index("--") if is_split else len(words)
    options = parser.parse_args(words[:end])
    options.passed = words[end + 1 :]
    try:
        code: int = options.run(options)
    except BrokenPipeError:
        raise
    except (CommandError, UsageError, OSError) as error:
        print(f"busbw {options.command}: {storage.error_text(error)}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return code


def find_command_modules(name: str = "") -> list[ModuleType]:
    """Return the modules of all subcommands, or the module of the subcommand `name` alone.

    The modules are in the order of `busbw --help`. With a `name`, the other modules are not even
    imported, because packages that they need may be missing. The list is empty if no subcommand has
    this name.
    """
    core_modules = [
        import_module(f"{__name__}.{core}") for core in _CORE_COMMANDS if name in ("", core)
    ]
    return [*core_modules, *extensions.load_table("COMMANDS", name).values()]

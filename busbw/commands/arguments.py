"""Options of commands: how one is added, what its text becomes, and what ends it.

Knows no command. `UsageError` is what a user can put right by asking otherwise.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class CommandError(Exception):
    """Why a command ends without an answer; the message is the sentence that the user reads."""

    exit_code = 1


class UsageError(CommandError):
    """Options or files that make no question, or a file that must not be written over."""

    exit_code = 2


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str,
) -> argparse.ArgumentParser:
    """Add the command `name`, which `run` carries out; its parser, for its options."""
    parser = commands.add_parser(name, help=help, description=description, allow_abbrev=False)
    parser.set_defaults(run=run)
    return parser


def parsed(parse: Callable[[str], object]) -> Callable[[str], object]:
    """A type for argparse whose ValueError is the sentence that the user reads."""

    def convert(text: str) -> object:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def whole_number(least: int) -> Callable[[str], object]:
    """A type for argparse: a whole number from `least` on."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ValueError(f"{text!r}; accepted is a whole number from {least} on")
        return int(text)

    return parsed(parse)


def names_of(known: Iterable[str]) -> Callable[[str], object]:
    """A type for argparse: a comma list of `known` names, without repeats."""

    def parse(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        for name in names:
            if name not in known:
                raise ValueError(f"{name!r}; accepted are {', '.join(known)}")
        return names

    return parsed(parse)

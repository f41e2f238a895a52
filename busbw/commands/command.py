"""What commands share: options, the files that they write, the workers that they start.

Knows no command. A `UsageError` is what a user can fix by other options. No file of a user is lost:
the file that an option names is checked before the command does anything.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from busbw import files
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalTransport
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.model.words import Capability, refusal

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class CommandError(Exception):
    """Why a command ends without an answer; the message is the sentence that the user reads."""

    exit_code = 1


class UsageError(CommandError):
    """Invalid options or files, or a file that must not be overwritten."""

    exit_code = 2


@contextlib.contextmanager
def usage_error(*kinds: type[Exception], where: str = "") -> Iterator[None]:
    """Turn exceptions of `kinds` into a UsageError whose message begins with `where`."""
    try:
        yield
    except kinds as error:
        raise UsageError(f"{where}{error}") from error


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str,
) -> argparse.ArgumentParser:
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


def name_of(known: Iterable[str]) -> Callable[[str], object]:
    """A type for argparse, instead of its choices: one of the `known` names."""
    accepted = tuple(known)

    def parse(text: str) -> str:
        if text not in accepted:
            raise ValueError(refusal(text, accepted))
        return text

    return parsed(parse)


def shown(known: Iterable[str]) -> str:
    return f"{{{','.join(known)}}}"


def names_of(known: Iterable[str]) -> Callable[[str], object]:
    """A type for argparse: a comma list of `known` names, without repeats."""
    accepted = tuple(known)

    def parse(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        for name in names:
            if name not in accepted:
                raise ValueError(refusal(name, accepted))
        return names

    return parsed(parse)


def add_document(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--document", type=Path, metavar="FILE", help="write the page to FILE instead of stdout"
    )


def check_file(
    option: str,
    path: Path | None,
    what: str,
    ours: Callable[[str], bool],
    inputs: Iterable[Path] = (),
) -> None:
    """Raise UsageError unless `path` may be written: as `files.check`, with the option's name."""
    if path is not None:
        with usage_error(files.Refused, where=f"{option}: "):
            files.check(path, what=what, ours=ours, inputs=inputs)


def json_with(*keys: str) -> Callable[[str], bool]:
    """Whether a text is JSON: an object with these keys, or a list of such objects."""

    def is_ours(text: str) -> bool:
        try:
            document = json.loads(text)
        except ValueError:
            return False
        rows = document if isinstance(document, list) else [document]
        return bool(rows) and all(isinstance(r, dict) and set(keys) <= set(r) for r in rows)

    return is_ours


def write_file(text: str, path: Path, prefix: str = "") -> int:
    """Write a file; the exit code: 1, with a sentence after `prefix`, where it cannot be."""
    try:
        files.write(path, text)
    except OSError as error:
        print(f"{prefix}{files.reason(error)}", file=sys.stderr)
        return 1
    return 0


def starter(framework: str, capability: Capability, device: str = "") -> Starter:
    return Starter(
        python=sys.executable,
        framework=framework,
        capability=capability,
        device=device,
        defaults=FRAMEWORKS[framework].environment,
    )


@contextlib.contextmanager
def local_executor(on_note: Callable[[str], None] = lambda note: None) -> Iterator[Executor]:
    """An executor of processes on this machine, with nothing left at the end."""
    bundle = Bundle()
    try:
        yield Executor(LocalTransport(bundle), on_note)
    finally:
        bundle.remove()

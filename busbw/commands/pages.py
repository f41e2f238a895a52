"""What a command writes: a page or a document, on the screen or in the file that an option names.

Nobody's file is lost: what an option names is looked at before the command does anything.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from busbw import writing


class Unwritable(ValueError):
    """A file that an option names and that is not written; the message says why."""


def add_document(parser: argparse.ArgumentParser) -> None:
    """Add `--document`."""
    parser.add_argument(
        "--document", type=Path, metavar="FILE", help="write the page to FILE instead of stdout"
    )


def is_page(command: str) -> Callable[[str], bool]:
    """Whether a text is a page of `command`: each says below its heading who wrote it."""
    mark = f"<!-- Written by `python -m busbw {command}"
    return lambda text: mark in text


def check_page(document: Path | None, command: str, inputs: Iterable[Path] = ()) -> None:
    """Raise Unwritable unless `document` may become a page of `command`."""
    check("--document", document, f"a page of busbw {command}", is_page(command), inputs)


def check(
    option: str,
    path: Path | None,
    what: str,
    ours: Callable[[str], bool],
    inputs: Iterable[Path] = (),
) -> None:
    """Raise Unwritable unless `path` may be written: as `writing.check`, with the option's name."""
    if path is None:
        return
    try:
        writing.check(path, what=what, ours=ours, inputs=inputs)
    except writing.Refused as error:
        raise Unwritable(f"{option}: {error}") from error


def check_folder(option: str, folder: Path) -> None:
    """Raise Unwritable unless files can be written in `folder`, which is made if it is missing."""
    try:
        writing.check_folder(folder)
    except writing.Refused as error:
        raise Unwritable(f"{option}: {error}") from error


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


def put(lines: Iterable[str], document: Path | None, command: str) -> int:
    """Write or print the page; the exit code: 1, with a sentence, where it cannot be written."""
    text = "\n".join(lines) + "\n"
    if document is None:
        print(text, end="")
        return 0
    return put_file(text, document, f"busbw {command}: --document: ")


def put_file(text: str, path: Path, before: str = "") -> int:
    """Write a file; the exit code: 1, with a sentence after `before`, where it cannot be."""
    try:
        writing.write(path, text)
    except OSError as error:
        print(f"{before}{writing.reason(error)}", file=sys.stderr)
        return 1
    return 0

"""What a command writes: a page or a document, on the screen or in the file that an option names.

Nobody's file is lost: what an option names is looked at before the command does anything.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from busbw import writing

from .arguments import UsageError


def add_document(parser: argparse.ArgumentParser) -> None:
    """Add `--document`."""
    parser.add_argument(
        "--document", type=Path, metavar="FILE", help="write the page to FILE instead of stdout"
    )


def check_document(
    options: argparse.Namespace,
    inputs: Iterable[Path] = (),
    or_ours: Callable[[str], bool] = lambda text: False,
) -> None:
    """Raise UsageError unless `--document` is new, or a page of the command, or else `or_ours`."""
    # Each page says below its heading who wrote it.
    mark = f"<!-- Written by `python -m busbw {options.command}"
    what = f"a page of busbw {options.command}"
    check("--document", options.document, what, lambda text: mark in text or or_ours(text), inputs)


def check(
    option: str,
    path: Path | None,
    what: str,
    ours: Callable[[str], bool],
    inputs: Iterable[Path] = (),
) -> None:
    """Raise UsageError unless `path` may be written: as `writing.check`, with the option's name."""
    if path is not None:
        with _refused(option):
            writing.check(path, what=what, ours=ours, inputs=inputs)


def check_folder(option: str, folder: Path) -> None:
    """Raise UsageError unless files can be written in `folder`, which is made if it is missing."""
    with _refused(option):
        writing.check_folder(folder)


@contextlib.contextmanager
def _refused(option: str) -> Iterator[None]:
    try:
        yield
    except writing.Refused as error:
        raise UsageError(f"{option}: {error}") from error


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


def put(lines: Iterable[str], options: argparse.Namespace) -> int:
    """Write or print the page; the exit code: 1, with a sentence, where it cannot be written."""
    text = "\n".join(lines) + "\n"
    if options.document is None:
        print(text, end="")
        return 0
    return put_file(text, options.document, f"busbw {options.command}: --document: ")


def put_file(text: str, path: Path, prefix: str = "") -> int:
    """Write a file; the exit code: 1, with a sentence after `prefix`, where it cannot be."""
    try:
        writing.write(path, text)
    except OSError as error:
        print(f"{prefix}{writing.reason(error)}", file=sys.stderr)
        return 1
    return 0

"""A page that a command made: on the screen, or in the file that `--document` names."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path


def add_document(parser: argparse.ArgumentParser) -> None:
    """Add `--document`."""
    parser.add_argument(
        "--document", type=Path, metavar="FILE", help="write the page to FILE instead of stdout"
    )


def put(lines: Iterable[str], document: Path | None, command: str) -> int:
    """Write or print the page; the exit code: 1, with a sentence, where it cannot be written."""
    text = "\n".join(lines) + "\n"
    if document is None:
        print(text, end="")
        return 0
    try:
        document.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"busbw {command}: --document: {error}", file=sys.stderr)
        return 1
    return 0

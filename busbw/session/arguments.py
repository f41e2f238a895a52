"""The types of arguments, for argparse: a text to its value, or ArgumentTypeError."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return `parse` with its ValueError as the ArgumentTypeError whose message argparse shows.

    An empty text, such as that of a shell variable that is not set, is no value.
    """

    def parse_argument(text: str) -> T:
        if not text.strip():
            raise argparse.ArgumentTypeError("expected a value, got an empty text")
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_argument


parse_path = argument(Path)
parse_text = argument(str)

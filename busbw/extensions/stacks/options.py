"""The option that names the folder of built stacks."""

from __future__ import annotations

from pathlib import Path

from busbw.session.arguments import cache_folder, parse_text
from busbw.session.option import COMPARE, Option

STACK_CACHE = Option(
    name="stack_cache",
    group=COMPARE,
    arguments={
        "type": parse_text,
        "metavar": "DIR",
        "help": "With --against=baseline: keep the environments that uv builds in DIR (default: "
        "busbw in the user's cache folder)",
    },
)


def cache_of(text: str) -> Path:
    """Return where stacks are built. Raises ValueError for ``none``, and without a folder."""
    folder = cache_folder(text)
    if folder is None:
        raise ValueError("--stack-cache: expected a folder, got 'none'")
    return folder

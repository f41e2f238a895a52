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


def stack_cache_folder(text: str) -> Path:
    """Return the folder in which stacks are built, from the value of --stack-cache.

    An empty `text` stands for the default folder. Raises ValueError for ``none``, and if the user
    has no home directory for the default folder.
    """
    folder = cache_folder(text)
    if folder is None:
        raise ValueError("--stack-cache: expected a folder, got 'none'")
    return folder

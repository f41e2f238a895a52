"""Paths below the user's home directory, which a user need not have."""

from __future__ import annotations

import os
from pathlib import Path


def expanded(text: str) -> Path:
    """Return the path `text`, with the user's home directory for its first ``~``.

    Raises ValueError where the user has no home directory: no HOME and no entry of the system.
    """
    path = os.path.expanduser(text)
    if path == "~" or path.startswith("~/"):
        raise ValueError(f"{text}: this user has no home directory; expected HOME to be set")
    return Path(path)


def cache_folder(text: str) -> Path | None:
    """Return where to cache: None for ``none``, and the user's cache folder for an empty text.

    Raises ValueError where the user has neither XDG_CACHE_HOME nor a home directory.
    """
    if text == "none":
        return None
    if text:
        return expanded(text).absolute()
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "busbw"
    try:
        return expanded("~/.cache/busbw")
    except ValueError as error:
        text = "this user has no home directory, and so no cache folder"
        raise ValueError(f"{text}; expected a folder here or in XDG_CACHE_HOME") from error

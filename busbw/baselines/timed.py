"""Files of times: how they are read, begun and written."""

from __future__ import annotations

from pathlib import Path

from . import files
from .document import Document, dumps
from .entries import empty_document
from .files import Codec
from .reading import checked

TIMED = Codec(
    folder="",
    checked=checked,
    empty=empty_document,
    text=dumps,
    is_empty=lambda document: not document.entries,
)


def read(path: Path) -> Document:
    """The checked Document in `path`, whichever known schema it has. Raises BaselineError."""
    return files.read(TIMED, path)

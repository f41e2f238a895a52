"""The page of one session, for the session that writes it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from busbw.history.files import HistoryError
from busbw.report.reading import DocumentError, session_of
from busbw.session.histories import read_machines

from .drawing import DrawingError, missing_libraries
from .page import html, is_page, page

__all__ = ["PageError", "is_page", "missing_libraries", "page_text"]


class PageError(ValueError):
    """The page of a session cannot be made."""


def page_text(
    document: object, history: Path | None, baselines: Path, folders: Collection[str]
) -> str:
    """Return the page as HTML.

    Args:
        document: the results of the session, as in its JSON file.
        history: the folder of the history, if there is one.
        baselines: the folder of baselines; it says which changes were accepted.
        folders: the folders of the machines whose history is shown; none shows no history.

    Raises:
        PageError: the history cannot be read, or a figure cannot be drawn.

    """
    try:
        machines = read_machines(history, baselines, folders) if history and folders else []
        return html(page([session_of(document, "this session")], machines))
    except (HistoryError, DocumentError, DrawingError) as error:
        raise PageError(str(error)) from error

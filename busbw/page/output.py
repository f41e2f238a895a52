"""The page of one session, for the session that writes it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from busbw.history.files import HistoryError
from busbw.report.reading import DocumentError, session_of

from . import nights
from .html import html, is_page, missing_for_pages
from .page import page
from .pictures import PictureError

__all__ = ["PageError", "is_page", "missing_for_pages", "page_text"]


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
        PageError: the history cannot be read, or a picture cannot be drawn.

    """
    try:
        return html(
            page(
                [session_of(document, "this session")],
                nights.machines(history, baselines, set(folders)) if history and folders else (),
            )
        )
    except (HistoryError, DocumentError, PictureError) as error:
        raise PageError(str(error)) from error

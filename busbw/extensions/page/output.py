"""The page of the session that writes it."""

from __future__ import annotations

from busbw.cli.sessions import read_machines
from busbw.history.files import HistoryError
from busbw.report.reading import DocumentError, session_of
from busbw.session.errors import usage_error
from busbw.session.files import View
from busbw.session.record import results_document
from busbw.session.state import Judged, Measured

from .drawing import DrawingError, missing_libraries
from .page import html, is_page, page


def page_view() -> View:
    """Return the view of --page."""
    return View(
        kind="an earlier page", is_kind=is_page, missing=missing_libraries(), text=page_text
    )


def page_text(judged: Judged) -> str:
    """Return the page as HTML, with the history of the machines that were measured.

    Raises UsageError if the history cannot be read, or a figure cannot be drawn.
    """
    options, measured = judged.options, judged.observed
    jobs = measured.jobs.values() if isinstance(measured, Measured) else ()
    folders = {str(job.key.folder) for job in jobs}
    history, baselines = options.history, options.baselines
    with usage_error(HistoryError, DocumentError, DrawingError):
        machines = read_machines(history, baselines, folders) if history and folders else []
        return html(page([session_of(results_document(judged), "this session")], machines))

"""The page that a session itself writes at its end (`--page`)."""

from __future__ import annotations

from busbw.cli.sessions import read_machine_histories
from busbw.history.files import HistoryError
from busbw.report.reading import DocumentError, session_of_document
from busbw.session.option import usage_error
from busbw.session.record import View, results_document
from busbw.session.state import JudgedSession, MeasuredSession

from .charts import DrawingError, check_libraries
from .page import is_page, make_page, render_html


def page_view() -> View:
    """Return the View of --page, by which a session writes a page and recognizes earlier pages.

    Raises ValueError if the libraries that draw are missing.
    """
    check_libraries()
    return View(kind="an earlier page", recognizes_text=is_page, text=page_text)


def page_text(judged_session: JudgedSession) -> str:
    """Return the HTML page of a judged session, with the history of the measured machines.

    Raises UsageError if the history cannot be read, or if a chart cannot be drawn.
    """
    options, measured_session = judged_session.options, judged_session.observations
    jobs = measured_session.jobs.values() if isinstance(measured_session, MeasuredSession) else ()
    folders = {str(job.key.folder) for job in jobs}
    history, baselines = options.history, options.baselines
    with usage_error(HistoryError, DocumentError, DrawingError):
        machines = (
            read_machine_histories(history, baselines, folders) if history and folders else []
        )
        return render_html(
            make_page(
                [session_of_document(results_document(judged_session), "this session")], machines
            )
        )

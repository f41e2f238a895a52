"""Write the history of a session and the files that options request, such as the results."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from busbw import __version__, extensions, storage, wire
from busbw.history.files import HistoryError, HistoryLine, append_lines, read_machine_lines
from busbw.history.texts import failing_since_texts
from busbw.model.case import CaseSpec, dataclass_from
from busbw.model.field_types import moment_text
from busbw.model.machine import EnvironmentKey
from busbw.model.words import Outcome, plural
from busbw.report.figures import figures_table
from busbw.report.results import (
    Results,
    case_result,
    is_results_document,
    shorten_homes_in_document,
)
from busbw.report.table import render

from .state import JudgedSession, MeasuredSession


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputFileKind:
    """A kind of file that shows a session, such as a page, and that an option requests.

    Attributes:
        kind: A phrase that names an existing file of this kind in errors, such as ``an earlier
            page``.
        recognizes_text: Returns whether the given text of an existing file is of this kind. Only
            such a file is overwritten.
        text: Returns the text of the file for a JudgedSession.

    """

    kind: str
    recognizes_text: Callable[[str], bool]
    text: Callable[[Any], str]


def load_output_file_kind(name: str) -> OutputFileKind:
    """Return the OutputFileKind of the file that the option `name` requests.

    `name` is ``results``, or a name that an extension declares in its table VIEWS. Raises
    ValueError if a library that makes the file is missing.
    """
    if name == "results":
        return OutputFileKind(
            kind="earlier results of busbw", recognizes_text=is_results_document, text=results_text
        )
    view: OutputFileKind = extensions.load_table("VIEWS", name)[name]()
    return view


def write_history_and_outputs(
    judged_session: JudgedSession, make_results_text: Callable[[JudgedSession], str]
) -> JudgedSession:
    """Append the session to the history, then write the files that options request.

    The history is written first, because the page shows the history. `make_results_text` returns
    the text for --results. Returns the session with notes on the history, and with an error for
    each file that could not be written.
    """
    written = _write_files(append_to_history(judged_session), make_results_text)
    if written.session_verdict != judged_session.session_verdict:
        # Files that were written before an error have the verdict without this error.
        _write_files(written, make_results_text)
    return written


def _write_files(
    judged_session: JudgedSession, make_results_text: Callable[[JudgedSession], str]
) -> JudgedSession:
    """Write the files that options request; return the session with an error for each failure."""
    for name, path in judged_session.options.outputs.items():
        try:
            make_text = make_results_text if name == "results" else load_output_file_kind(name).text
            storage.write(path, make_text(judged_session))
        except Exception as error:  # A bug in a view must not hide the verdict.
            problem = f"--{name}: nothing was written: {storage.error_text(error)}"
            judged_session = judged_session.with_failing_error(problem)
    return judged_session


def results_text(judged_session: JudgedSession) -> str:
    """Return the text of the file of --results: CSV if its name ends in ``.csv``, else JSON."""
    if judged_session.options.outputs["results"].name.lower().endswith(".csv"):
        return "\n".join(
            [*render("csv", figures_table(tuple(judged_session.verdicts.values()))), ""]
        )
    return json.dumps(results_document(judged_session), indent=1) + "\n"


def results_document(judged_session: JudgedSession) -> object:
    """Return the results of a session that measured its cases, as data for `json.dumps`.

    In all texts, ``~`` stands for a home directory.
    """
    measured_session = judged_session.observations
    assert isinstance(measured_session, MeasuredSession)
    candidates = measured_session.measurements
    references = measured_session.references
    probes = measured_session.machine.probes
    cases = (
        case_result(verdict, candidates.get(spec), references.get(spec))
        for spec, verdict in judged_session.verdicts.items()
    )
    results = dataclass_from(
        Results,
        measured_session,
        **common_result_fields(judged_session),
        process_hosts=next((probe.process_hosts for probe in probes if probe.process_hosts), ()),
        cases=tuple(cases),
    )
    return shorten_homes_in_document(wire.to_json(results), os.path.expanduser("~"))


def common_result_fields(judged_session: JudgedSession) -> dict[str, Any]:
    """Return the fields that the results of all modes have in common, by the name of the field."""
    return {
        "busbw": __version__,
        "began": moment_text(judged_session.observations.began),
        "host": platform.node(),
        "session": judged_session.session_verdict,
    }


def append_to_history(judged_session: JudgedSession) -> JudgedSession:
    """Append a line for each measured case to the history, if the options name a history.

    The returned JudgedSession has a note on the appended lines, or an error if the history could
    not be read or written. The `failing_since` of the session says since which session the failed
    cases fail.
    """
    root = judged_session.options.history
    measured_session = judged_session.observations
    if root is None or not isinstance(measured_session, MeasuredSession):
        return judged_session
    # A session has a random name, because two machines may begin sessions at the same moment.
    session_name = os.urandom(8).hex()
    notes = list[str]()
    failing_since = list[str]()
    lines: dict[EnvironmentKey, list[HistoryLine]] = {}
    failed = [verdict for verdict in judged_session.verdicts.values() if verdict.failed]
    for spec, job in measured_session.jobs.items():
        lines_of_case = _history_lines(judged_session, measured_session, spec, session_name)
        lines.setdefault(job.key, []).extend(lines_of_case)
    try:
        for key, lines_of_machine in lines.items():
            if lines_of_machine:
                path = append_lines(root, key, lines_of_machine)
                notes.append(
                    f"appended to the history: {plural(len(lines_of_machine), 'line')} of {path}"
                )
            if failed:
                failing_since += failing_since_texts(read_machine_lines(root / key.folder), failed)
    except HistoryError as error:
        return judged_session.with_failing_error(f"the history was not appended to: {error}")
    return replace(judged_session.with_notes(*notes), failing_since=tuple(failing_since))


def _history_lines(
    judged_session: JudgedSession,
    measured_session: MeasuredSession,
    spec: CaseSpec,
    session_name: str,
) -> Iterator[HistoryLine]:
    """Yield the lines for the history on the case `spec`: one line, or two with a locked stack.

    The second line has the times of the locked reference stack. `session_name` is the name of the
    session in the history. A case without a measurement has no lines.
    """
    verdict = judged_session.verdicts[spec]
    measurement = measured_session.measurements.get(spec)
    if measurement is None:
        return
    baseline = measured_session.jobs[spec].baseline_search.baseline
    stack = measured_session.options.stacks.get(spec.framework)
    common_fields: dict[str, Any] = {
        "session": session_name,
        "device": measured_session.machine.target.device,
        "case": measurement.case,
        "session_outcome": judged_session.session_verdict.outcome,
        "session_outcomes": judged_session.session_verdict.outcomes,
        "paired": measured_session.options.is_paired,
        "baseline_date": baseline.date if baseline is not None else "",
        "stack": stack.digest if stack is not None else "",
        "changed": measured_session.environment.changed,
    }
    yield dataclass_from(
        HistoryLine,
        measured_session.record_of(measurement),
        outcome=verdict.outcome,
        failure=next((failure.kind for failure in measurement.failures), None),
        ratio=verdict.ratio,
        injected=next((run.injected for run in measurement.runs if run.injected), ""),
        **common_fields,
    )
    if stack is not None:
        reference = measured_session.references[spec]
        yield dataclass_from(
            HistoryLine,
            measured_session.record_of(reference, stack.flags),
            outcome=Outcome.NO_BASELINE,
            failure=next((failure.kind for failure in reference.failures), None),
            is_reference=True,
            **common_fields,
        )

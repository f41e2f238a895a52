"""Judged → files: the history, the results and views; what cannot be written is an error."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw import __version__, storage, wire
from busbw.history.failing import failing_texts
from busbw.history.files import HistoryError, append, read
from busbw.history.lines import Line
from busbw.model.case import Spec, converted
from busbw.model.limits import moment_text
from busbw.model.machine import EnvironmentKey
from busbw.model.words import Outcome, SessionOutcome, plural
from busbw.report.figures import figures_table
from busbw.report.renderers import render
from busbw.report.results import Results, case_result, without_homes

from .errors import UsageError
from .files import STANDARD_OUTPUT, is_named_csv, view_of
from .levels import record_of
from .repeat import command_text
from .state import Judged, Measured


def write_outputs(judged: Judged, results: Callable[[Judged], str]) -> Judged:
    """Append to the history, then write the requested files: the page shows the history.

    The file of --results has the text of `results`. A session with an error is not green.
    """
    written = _add_errors(judged, _write_views(append_history(judged)))
    path = judged.options.outputs.get("results")
    if path is not None:
        written = _add_errors(written, _write(written, "results", path, results))
    return written


def _write_views(judged: Judged) -> Judged:
    """Write the files that show a session, which can be written again."""
    for name, path in judged.options.outputs.items():
        if name != "results":
            judged = _write(judged, name, path, view_of(name).text)
    return judged


def _add_errors(before: Judged, after: Judged) -> Judged:
    """Return `after`, whose verdict and views have its new errors unless it failed anyway."""
    errors = after.errors[len(before.errors) :]
    if not errors or after.session.failed:
        return after
    session = before.session.with_outcome(SessionOutcome.NO_VERDICT, "; ".join(errors))
    return replace(_write_views(replace(after, session=session)), errors=after.errors)


def _write(judged: Judged, name: str, path: Path, text_of: Callable[[Judged], str]) -> Judged:
    """Write the file of an option, or add an error."""
    try:
        text = text_of(judged)
        if path == STANDARD_OUTPUT:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            storage.write(path, text)
    except UsageError as error:
        problem = str(error)
    except OSError as error:
        problem = storage.error_text(error)
    except Exception as error:  # Whatever it is, the verdict is shown first.
        problem = repr(error)
    else:
        return judged
    return judged.with_error(f"--{name}: nothing was written: {problem}")


def results_text(judged: Judged) -> str:
    """Return the file of --results: a table if it is named as CSV, else JSON."""
    if is_named_csv(judged.options.outputs["results"].name):
        return "\n".join([*render("csv", figures_table(tuple(judged.verdicts.values()))), ""])
    return json.dumps(document_of(judged), indent=1) + "\n"


def document_of(judged: Judged) -> object:
    """Return the session as plain data, without the names of homes."""
    observed = judged.observed
    measured = observed if isinstance(observed, Measured) else None
    now, references = (measured.measurements, measured.references) if measured else ({}, {})
    cases = (
        case_result(verdict, now.get(spec), references.get(spec))
        for spec, verdict in judged.verdicts.items()
    )
    results = Results(
        **head_of(judged, measured.machine.target.device.value if measured else ""),
        environment=measured.environment if measured else None,
        process_hosts=measured.machine.process_hosts if measured else (),
        plan=measured.plan if measured else None,
        measuring_s=measured.measuring_s if measured else None,
        spent_s=measured.spent_s if measured else {},
        extra=measured.extra if measured else {},
        cases=tuple(cases),
    )
    return without_homes(wire.to_json(results), os.path.expanduser("~"))


def head_of(judged: Judged, device: str = "") -> dict[str, Any]:
    """Return what every document of a session has; `device` is the device that was measured."""
    return {
        "busbw": __version__,
        "began": moment_text(judged.collected.began),
        "host": platform.node(),
        "command": command_text(judged.options, os.environ, device),
        "session": judged.session,
    }


def append_history(judged: Judged) -> Judged:
    """Append the session to its history, if it has one."""
    root, measured = judged.options.history, judged.observed
    if root is None or not isinstance(measured, Measured):
        return judged
    # A random name: two machines may begin sessions at the same moment.
    session, notes = os.urandom(8).hex(), list[str]()
    lines: dict[EnvironmentKey, list[Line]] = {}
    for spec, job in measured.jobs.items():
        lines.setdefault(job.key, []).extend(_lines(judged, measured, spec, session))
    try:
        for key, several in lines.items():
            if several:
                path = append(root, key, several)
                notes.append(f"appended to the history: {plural(len(several), 'line')} of {path}")
        since = tuple(_since(judged, measured, root, lines))
    except HistoryError as error:
        return judged.with_error(f"the history was not appended to: {error}")
    return replace(judged.with_notes(*notes), since=since)


def _since(
    judged: Judged, measured: Measured, root: Path, keys: Iterable[EnvironmentKey]
) -> Iterator[str]:
    """Yield since when the cases that failed fail. Raises HistoryError."""
    for key in keys:
        failed = {
            job.case: judged.verdicts[spec].outcome
            for spec, job in measured.jobs.items()
            if job.key == key and judged.verdicts[spec].failed
        }
        if failed:
            yield from failing_texts(read(root, key), failed)


def _lines(judged: Judged, measured: Measured, spec: Spec, session: str) -> Iterator[Line]:
    """Yield the lines of a case: of this stack, and of a locked reference that was interleaved."""
    verdict, now = judged.verdicts[spec], measured.measurements.get(spec)
    if now is None:
        return
    stored, stack = measured.jobs[spec].stored.baseline, measured.options.stacks.get(spec.framework)
    shared: dict[str, Any] = {
        "session": session,
        "device": measured.machine.target.device,
        "case": now.case,
        "session_outcome": judged.session.outcome,
        "session_outcomes": judged.session.outcomes,
        "paired": measured.is_paired,
        "baseline_date": stored.date if stored is not None else "",
        "stack": stack.digest if stack is not None else "",
        "changed": measured.environment.changed,
    }
    yield converted(
        Line,
        record_of(measured, now),
        outcome=verdict.outcome,
        failure=next((failure.kind for failure in now.failures), None),
        ratio=verdict.ratio,
        injected=next((run.injected for run in now.runs if run.injected), ""),
        **shared,
    )
    if stack is not None:
        reference = measured.references[spec]
        record = record_of(measured, reference, stack.flags)
        failure = next((failure.kind for failure in reference.failures), None)
        yield converted(
            Line,
            record,
            outcome=Outcome.NO_BASELINE,
            failure=failure,
            is_reference=True,
            **shared,
        )

"""Judged → history, results and views; what cannot be written is an error and changes nothing."""

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
from busbw.history.lines import Line, new_session
from busbw.model.case import Spec, converted
from busbw.model.launch import Measurement
from busbw.model.limits import moment_text
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome, plural
from busbw.report.figures import figures_table
from busbw.report.renderers import render
from busbw.report.results import CaseResult, Results, case_result, without_homes

from . import references, repeat
from .errors import UsageError
from .folders import STANDARD_OUTPUT, is_named_csv, view_of
from .state import Judged, Measured


def with_outputs(judged: Judged, results: Callable[[Judged], str] | None = None) -> Judged:
    """Write the history, then the requested files: the page shows the history with this session.

    The file of --results has the text that `results` makes, or the results of measuring.
    """
    found = _told(judged, _with_views(appended(judged)))
    path, text_of = judged.settings.results, results or _results
    return _told(found, _with_file(found, "--results: no results were written", path, text_of))


def _with_views(judged: Judged) -> Judged:
    """Write the files that show a session, which can be written again."""
    for name, path in judged.settings.views.items():
        judged = _with_file(judged, f"--{name}: nothing was written", path, view_of(name).text)
    return judged


def _told(before: Judged, found: Judged) -> Judged:
    """Return `found` with its new errors in the verdict: a session that ends with 1 is not FINE."""
    errors = found.errors[len(before.errors) :]
    if not errors or found.session.failed:
        return found
    verdict = found.session.with_outcome(SessionOutcome.NO_VERDICT, "; ".join(errors))
    return replace(_with_views(replace(found, session=verdict)), errors=found.errors)


def _with_file(
    judged: Judged, problem: str, path: Path | None, content: Callable[[Judged], str]
) -> Judged:
    if path is None:
        return judged
    try:
        text = content(judged)
        if path == STANDARD_OUTPUT:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            storage.write(path, text)
    except UsageError as error:
        problem = f"{problem}: {error}"
    except OSError as error:
        problem = f"{problem}: {storage.error_text(error)}"
    except Exception as error:  # Whatever it is, the verdict is told first.
        problem = f"{problem}: {error!r}"
    else:
        return judged
    return judged.with_error(problem)


def _results(judged: Judged) -> str:
    if judged.settings.results is not None and is_named_csv(judged.settings.results.name):
        return "\n".join([*render("csv", figures_table(tuple(judged.verdicts.values()))), ""])
    return json.dumps(document_of(judged), indent=1) + "\n"


def document_of(judged: Judged) -> object:
    """Return the session as plain data, without the names of homes."""
    found = judged.observed
    measured = found if isinstance(found, Measured) else None
    device = measured.machine.target.device.value if measured else ""
    document = wire.to_json(
        Results(
            **head_of(judged, device),
            environment=measured.environment if measured else None,
            process_hosts=measured.machine.process_hosts if measured else (),
            plan=measured.plan if measured else None,
            measuring_s=measured.measuring_s if measured else None,
            spent_s=measured.spent_s if measured else {},
            extra=measured.extra if measured else {},
            cases=tuple(_case_result(one, measured) for one in judged.verdicts.values()),
        )
    )
    return without_homes(document, os.path.expanduser("~"))


def head_of(judged: Judged, device: str = "") -> dict[str, Any]:
    """Return what every document of a session has."""
    return {
        "busbw": __version__,
        "began": moment_text(judged.collected.began),
        "host": platform.node(),
        "command": repeat.command_text(judged.settings, os.environ, device),
        "session": judged.session,
    }


def _case_result(verdict: Verdict, measured: Measured | None) -> CaseResult:
    now = measured.measurements.get(verdict.spec) if measured else None
    theirs = measured.references.get(verdict.spec) if measured else None
    return case_result(verdict, now, theirs)


def appended(judged: Judged) -> Judged:
    """With the session in the history, if it has one; what cannot be appended is an error."""
    root, measured = judged.settings.history, judged.observed
    if root is None or not isinstance(measured, Measured):
        return judged
    session, notes = new_session(), list[str]()
    lines: dict[EnvironmentKey, list[Line]] = {}
    for spec, job in measured.jobs.items():
        lines.setdefault(job.key, []).extend(_lines(judged, measured, spec, session))
    try:
        for key, found in lines.items():
            if not found:
                continue
            path = append(root, key, found)
            notes.append(f"appended to the history: {plural(len(found), 'line')} of {path}")
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
    stored, against = measured.jobs[spec].stored.baseline, measured.settings.against
    locked = against.locked.get(spec.framework) if against is not None else None
    shared: dict[str, Any] = {
        "session": session,
        "device": measured.machine.target.device,
        "case": now.case,
        "session_outcome": judged.session.outcome,
        "session_outcomes": judged.session.outcomes,
        "paired": measured.paired,
        "baseline_date": stored.date if stored is not None else "",
        "stack": locked.digest if locked is not None else "",
        "changed": measured.environment.changed,
    }
    yield converted(
        Line,
        references.record_of(measured, now),
        outcome=verdict.outcome,
        failure=_failure(now),
        ratio=verdict.ratio,
        injected=next((run.injected for run in now.runs if run.injected), ""),
        **shared,
    )
    if locked is not None:
        theirs = measured.references[spec]
        record = references.record_of(measured, theirs, locked.flags)
        failure = _failure(theirs)
        yield converted(
            Line,
            record,
            outcome=Outcome.NO_BASELINE,
            failure=failure,
            is_reference=True,
            **shared,
        )


def _failure(found: Measurement) -> FailureKind | None:
    return found.failures[0].kind if found.failures else None

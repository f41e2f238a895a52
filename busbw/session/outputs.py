"""Judged → history, results and page; what cannot be written is an error and changes nothing.

What draws pages is imported where one is asked for: other sessions need not wait for it.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw import files
from busbw.history.files import HistoryError, append
from busbw.history.lines import Line, new_session
from busbw.judge.validity import injected_ratio
from busbw.model.case import Spec, converted
from busbw.model.machine import EnvironmentKey
from busbw.model.words import plural
from busbw.report.figures import figures_table
from busbw.report.renderers import rendered
from busbw.report.results import results, without_homes
from busbw.stats.launches import quantiles_s

from . import references
from .folders import STANDARD_OUTPUT, is_named_csv
from .state import Judged, Measured, Programs, Written

if TYPE_CHECKING:
    from busbw.page.nights import MachineNights


def with_results(written: Written) -> Written:
    path, judged = written.judged.settings.results, written.judged
    if path is None:
        return written
    if is_named_csv(path.name):
        content = "\n".join([*rendered("csv", figures_table(tuple(judged.verdicts.values()))), ""])
    else:
        content = json.dumps(document_of(judged), indent=1) + "\n"
    return _with_file(written, "--results: no results were written: ", path, content)


def with_metrics(written: Written) -> Written:
    path, judged = written.judged.settings.metrics, written.judged
    if path is None:
        return written
    from busbw.report.prometheus import metrics

    prefix = "--metrics: no metrics were written: "
    try:
        content = metrics(tuple(judged.verdicts.values()), judged.session, judged.collected.began)
    except Exception as error:  # Whatever it is, the verdict is told first.
        return replace(written, errors=(*written.errors, f"{prefix}{error!r}"))
    return _with_file(written, prefix, path, content)


def with_page(written: Written) -> Written:
    path, judged = written.judged.settings.page, written.judged
    if path is None:
        return written
    from busbw.page.html import html
    from busbw.page.page import page
    from busbw.page.pictures import PictureError
    from busbw.report.reading import DocumentError, session_of

    prefix = "--page: no page was written: "
    sentences = (HistoryError, DocumentError, PictureError)
    try:
        session = session_of(document_of(judged), "this session")
        content = html(page([session], _nights(judged)))
    except Exception as error:  # Whatever it is, the verdict is told first.
        words = str(error) if isinstance(error, sentences) else repr(error)
        return replace(written, errors=(*written.errors, f"{prefix}{words}"))
    return _with_file(written, prefix, path, content)


def _with_file(written: Written, prefix: str, path: Path, content: str) -> Written:
    try:
        if path == STANDARD_OUTPUT:
            sys.stdout.write(content)
            sys.stdout.flush()
        else:
            files.write(path, content)
    except OSError as error:
        return replace(written, errors=(*written.errors, f"{prefix}{files.reason(error)}"))
    return written


def _nights(judged: Judged) -> tuple[MachineNights, ...]:
    from busbw.page import nights

    root, measured = judged.settings.history, judged.observed
    if root is None or not isinstance(measured, Measured):
        return ()
    folders = {str(job.key.folder) for job in measured.resolved.jobs.values()}
    return nights.machines(root, judged.settings.baselines, folders)


def document_of(judged: Judged) -> object:
    """The session as plain data, without the names of homes."""
    found, measured = judged.observed, {}
    if isinstance(found, Measured):
        measured = _measured(found)
    document = results(
        began=judged.collected.began,
        host=platform.node(),
        session=judged.session,
        verdicts=tuple(judged.verdicts.values()),
        compilers=tuple(found.resolved.compilers.values()) if isinstance(found, Programs) else (),
        **measured,
    )
    return without_homes(document, os.path.expanduser("~"))


def _measured(found: Measured) -> dict[str, Any]:
    return {
        "environment": found.resolved.environment,
        "process_hosts": found.resolved.machine.process_hosts,
        "plan": found.resolved.plan,
        "measurements": found.measurements,
        "references": found.references,
        "measuring_s": found.measuring_s,
        "spent_s": found.spent_s,
        "quantiles_s": {
            spec: [quantiles_s(run) for run in measurement.runs]
            for spec, measurement in found.measurements.items()
        },
    }


def appended(written: Written) -> Written:
    """With the session in the history, if it has one; what cannot be appended is an error."""
    judged = written.judged
    root, measured = judged.settings.history, judged.observed
    if root is None or not isinstance(measured, Measured):
        return written
    try:
        notes = _append(root, judged, measured)
    except HistoryError as error:
        text = f"the history was not appended to: {error}"
        return replace(written, errors=(*written.errors, text))
    return replace(written, notes=(*written.notes, *notes))


def _append(root: Path, judged: Judged, measured: Measured) -> tuple[str, ...]:
    session = new_session()
    lines: dict[EnvironmentKey, list[Line]] = {}
    for spec, job in measured.resolved.jobs.items():
        its = lines.setdefault(job.key, [])
        its += _lines(judged, measured, spec, session)
    notes: list[str] = []
    for key, found in lines.items():
        path, repaired = append(root, key, found)
        notes += [*repaired, f"appended to the history: {plural(len(found), 'line')} of {path}"]
    return tuple(notes)


def _lines(judged: Judged, measured: Measured, spec: Spec, session: str) -> Iterator[Line]:
    """Tonight's, and that of a locked reference that was measured in turn with it."""
    line, against = _line(judged, measured, spec, session), measured.resolved.settings.against
    lock = against.locks.get(spec.framework) if against is not None else None
    if lock is None:
        yield line
        return
    yield replace(line, stack=lock.digest)
    found = measured.references[spec]
    record = references.record_of(measured, found, lock.flags)
    yield replace(
        line,
        outcome=record.outcome,
        times_us=record.times_us,
        versions=record.versions,
        surroundings=record.surroundings,
        failure=found.failures[0].kind if found.failures else None,
        ratio=None,
        injected="",
        injected_ratio=None,
        stack=lock.digest,
        is_reference=True,
    )


def _line(judged: Judged, measured: Measured, spec: Spec, session: str) -> Line:
    verdict, found = judged.verdicts[spec], measured.measurements[spec]
    stored = measured.resolved.jobs[spec].stored.baseline
    return converted(
        Line,
        references.record_of(measured, found),
        session=session,
        device=measured.resolved.machine.target.device,
        case=found.case,
        outcome=verdict.outcome,
        session_outcome=judged.session.outcome,
        session_outcomes=judged.session.outcomes,
        failure=found.failures[0].kind if found.failures else None,
        ratio=verdict.ratio,
        injected=next((run.injected for run in found.runs if run.injected), ""),
        injected_ratio=injected_ratio(found.runs),
        paired=measured.resolved.paired,
        baseline_date=stored.date if stored is not None else "",
        changed=measured.resolved.environment.changed,
    )

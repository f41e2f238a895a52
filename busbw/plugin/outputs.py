"""Judged → the files that show a session: the results, and the page, which is made of them.

What cannot be written is an error, and changes nothing else.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import replace
from pathlib import Path

from busbw import history, nights, report, stats, writing

from .session import Judged, Measured, Written

# Errors whose message is a sentence for the user.
_SENTENCES = (history.HistoryError, report.DocumentError, report.PictureError)


def with_results(written: Written) -> Written:
    path, judged = written.judged.settings.results, written.judged
    if path is None:
        return written
    content = json.dumps(_document(judged), indent=1) + "\n"
    return _with_file(written, "--results: no results were written: ", path, content)


def with_page(written: Written) -> Written:
    path, judged = written.judged.settings.page, written.judged
    if path is None:
        return written
    prefix = "--page: no page was written: "
    try:
        session = report.session_of(_document(judged), "this session")
        content = report.html(report.page([session], _nights(judged)))
    except Exception as error:  # Whatever it is, the verdict is told first.
        words = str(error) if isinstance(error, _SENTENCES) else repr(error)
        return replace(written, errors=(*written.errors, f"{prefix}{words}"))
    return _with_file(written, prefix, path, content)


def _with_file(written: Written, prefix: str, path: Path, content: str) -> Written:
    try:
        writing.write(path, content)
    except OSError as error:
        return replace(written, errors=(*written.errors, f"{prefix}{writing.reason(error)}"))
    return written


def _nights(judged: Judged) -> tuple[report.MachineNights, ...]:
    root, measured = judged.settings.history, judged.observed
    if root is None or not isinstance(measured, Measured):
        return ()
    folders = {str(job.key.folder) for job in measured.resolved.jobs.values()}
    return nights.machines(root, judged.settings.baselines, folders)


def _document(judged: Judged) -> object:
    """The session as plain data, without the names of homes."""
    found = judged.observed
    if isinstance(found, Measured):
        document = _measured(judged, found)
    else:
        compilers = found.resolved.compilers if found else {}
        document = report.compiled_document(
            tuple(judged.compiled.values()),
            judged.session,
            tuple(compilers.values()),
            began=judged.collected.began,
            host=platform.node(),
        )
    return report.without_homes(document, os.path.expanduser("~"))


def _measured(judged: Judged, measured: Measured) -> dict[str, object]:
    return report.results(
        began=judged.collected.began,
        environment=measured.resolved.environment,
        plan=measured.resolved.plan,
        session=judged.session,
        verdicts=tuple(judged.verdicts.values()),
        measurements=measured.measurements,
        measuring_s=measured.measuring_s,
        spent_s=measured.spent_s,
        references=measured.references,
        process_hosts=measured.resolved.machine.process_hosts,
        quantiles_s={
            spec: [stats.quantiles_s(run) for run in measurement.runs]
            for spec, measurement in measured.measurements.items()
        },
    )

"""The end of the session: accepted baselines are written, once, and the results file.

What cannot be written is an error of its own, told after everything else.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from busbw import report, stats, writing

from .accepting import accepted
from .selecting import under_xdist
from .session import SESSION, Judged, Measured, Programs

_WRITE_AFTER = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Nothing is written after an interrupt, and no baseline unasked."""
    judged = session.config.stash.get(SESSION, None)
    if under_xdist(session.config) or not isinstance(judged, Judged):
        return
    if exitstatus not in _WRITE_AFTER or not _is_there(judged):
        return
    written, exit_code = accepted(judged)
    error = _results(judged)
    written = replace(written, errors=(*written.errors, *error))
    session.exitstatus = exit_code or exitstatus
    if written.errors and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    session.config.stash[SESSION] = written


def _is_there(judged: Judged) -> bool:
    """Whether anything was measured, or was to be compiled."""
    measured = judged.observed
    return bool(judged.compiled) or (isinstance(measured, Measured) and bool(measured.measurements))


def _results(judged: Judged) -> tuple[str, ...]:
    """Write --results; what went wrong."""
    path = judged.settings.results
    if path is None:
        return ()
    measured = judged.observed
    document = _measured(judged, measured) if isinstance(measured, Measured) else _compiled(judged)
    shown = report.without_homes(document, os.path.expanduser("~"))
    try:
        writing.write(path, json.dumps(shown, indent=1) + "\n")
    except OSError as error:
        return (f"--results: no results were written: {writing.reason(error)}",)
    return ()


def _measured(judged: Judged, measured: Measured) -> dict[str, object]:
    return report.results(
        environment=measured.resolved.environment,
        plan=measured.resolved.plan,
        session=judged.session,
        verdicts=tuple(judged.verdicts.values()),
        measurements=measured.measurements,
        measuring_s=measured.measuring_s,
        spent_s=measured.spent_s,
        references=measured.references,
        quantiles_s={
            spec: [stats.quantiles_s(run) for run in measurement.runs]
            for spec, measurement in measured.measurements.items()
        },
    )


def _compiled(judged: Judged) -> dict[str, object]:
    programs = judged.observed
    compilers = programs.resolved.compilers if isinstance(programs, Programs) else {}
    return report.compiled_document(
        tuple(judged.compiled.values()), judged.session, tuple(compilers.values())
    )

"""The end of the session: accepted baselines are written, once, and the results file.

What cannot be written is an error of its own, told after everything else.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from busbw import report, stats, writing

from . import updating, updating_compiled
from .state import STATE, State, under_xdist

_WRITE_AFTER = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Nothing is written after an interrupt, and no baseline unasked."""
    state = session.config.stash.get(STATE, None)
    if state is None or under_xdist(session.config):
        return
    if state.interrupted or exitstatus not in _WRITE_AFTER:
        return
    results = state.settings.results
    if state.compiled:
        session.exitstatus = updating_compiled.write(state) or exitstatus
        if results is not None:
            _write_results(state, results, _compiled(state))
    if state.measurements:
        session.exitstatus = updating.write(state) or session.exitstatus
        if results is not None:
            _write_results(state, results, _measured(state))
    if state.errors and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _write_results(state: State, path: Path, document: dict[str, Any]) -> None:
    document = report.without_homes(document, os.path.expanduser("~"))
    try:
        writing.write(path, json.dumps(document, indent=1) + "\n")
    except OSError as error:
        state.errors.append(f"--results: no results were written: {writing.reason(error)}")


def _measured(state: State) -> dict[str, Any]:
    assert state.environment is not None and state.plan is not None
    return report.results(
        environment=state.environment,
        plan=state.plan,
        session=state.session_verdict,
        verdicts=tuple(state.verdicts.values()),
        measurements=state.measurements,
        measuring_s=state.measuring_s,
        spent_s=state.spent_s,
        references=state.references,
        quantiles_s={
            spec: [stats.quantiles_s(run) for run in measurement.runs]
            for spec, measurement in state.measurements.items()
        },
    )


def _compiled(state: State) -> dict[str, Any]:
    verdicts = tuple(state.compiled.values())
    return report.compiled_document(verdicts, state.session_verdict, state.compilers)

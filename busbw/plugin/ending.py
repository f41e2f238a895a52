"""The end of the session: accepted baselines are written, once, and the results file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw import report, stats

from . import updating, updating_compiled
from .state import STATE, State, under_xdist

_WRITE_AFTER = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Nothing is written after an interrupt, and no baseline unasked."""
    state = session.config.stash.get(STATE, None)
    if state is None or under_xdist(session.config):
        return
    if state.compiled and not state.interrupted and exitstatus in _WRITE_AFTER:
        session.exitstatus = updating_compiled.write(state) or exitstatus
        _write_compiled(state)
    if not state.measurements:
        return
    over = exitstatus in _WRITE_AFTER and not state.interrupted
    if over:
        session.exitstatus = updating.write(state) or exitstatus
    if over and state.settings.results is not None:
        _write_results(state, state.settings.results)


def _write_results(state: State, path: Path) -> None:
    assert state.environment is not None and state.plan is not None
    document = report.results(
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
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _write_compiled(state: State) -> None:
    verdicts = tuple(state.compiled.values())
    if state.settings.results is not None:
        document = report.compiled_document(verdicts, state.session_verdict, state.compilers)
        text = json.dumps(document, indent=1) + "\n"
        state.settings.results.write_text(text, encoding="utf-8")

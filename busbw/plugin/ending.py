"""The end of the session: accepted baselines are written, once, and the results file."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from busbw import baselines, judge, report, stats
from busbw.model import EnvironmentKey, Measurement

from .state import STATE, State, under_xdist

_WRITE_AFTER = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Nothing is written after an interrupt, and no baseline without --update-baselines."""
    state = session.config.stash.get(STATE, None)
    if state is None or under_xdist(session.config) or not state.measurements:
        return
    over = exitstatus in _WRITE_AFTER and not state.interrupted
    if over and state.settings.update_baselines and not _write_baselines(state):
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
    if over and state.settings.results is not None:
        _write_results(state, state.settings.results)


def _write_baselines(state: State) -> bool:
    """Whether they could be written; if not, the summary says why, with all that was measured."""
    try:
        state.changes = baselines.save(
            state.settings.baselines,
            _accepted(state),
            date=datetime.date.today().isoformat(),
            only_new=state.settings.update_baselines == "new",
        )
    except (baselines.BaselineError, OSError) as error:
        state.notes.append(f"no baseline was written: {error}")
        return False
    return True


def _accepted(state: State) -> list[tuple[EnvironmentKey, Measurement, list[float]]]:
    found = {}
    for spec, measurement in state.measurements.items():
        if spec in state.verdicts and judge.may_become_baseline(state.verdicts[spec]):
            times_s = [stats.launch_time_s(run) for run in measurement.runs]
            found[measurement.case] = (state.keys[spec], measurement, times_s)
    return list(found.values())


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
        quantiles_s={
            spec: [stats.quantiles_s(run) for run in measurement.runs]
            for spec, measurement in state.measurements.items()
        },
    )
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

"""What a session writes to baselines: only what was asked for, and only what deserves it.

Decides which cases are handed on; files, levels and budgets are the business of
`busbw.baselines`. Nothing is written from a session without a verdict.
"""

from __future__ import annotations

import datetime
import statistics

import pytest

from busbw import baselines, cases, judge, stats, writing
from busbw.model import (
    Baseline,
    Case,
    EnvironmentKey,
    GridError,
    Measurement,
    Outcome,
    SessionOutcome,
    Spec,
)

from . import machine
from .settings import Settings
from .state import State


def takes_slower(
    settings: Settings, stored: Baseline | None, measurement: Measurement, budget: float
) -> bool:
    """Whether the update that was asked for would store today's times even if they are slower."""
    if settings.update_baselines != "all":
        return False
    if settings.accept_regression or stored is None or stored.pinned_s is None:
        return True
    if stored.case.protocol != measurement.case.protocol:
        return True
    times_s = _times_s(measurement)
    return bool(times_s) and not baselines.beyond(
        statistics.median(times_s), stored.pinned_s, budget
    )


def write(state: State) -> pytest.ExitCode | None:
    """Write what was asked for, once. The exit code that it calls for; None: as it was."""
    settings = state.settings
    if not (settings.update_baselines or settings.rebase or settings.prune_baselines):
        return None
    found = state.session_verdict
    if found is None or found.outcome is not SessionOutcome.FINE:
        why = f"{found.outcome.value}: {found.text}" if found else "the session was not judged"
        state.notes.append(f"no baseline was written: {why}")
        return None
    try:
        return _write(state)
    except baselines.BaselineError as error:
        state.notes.append(f"no baseline was written: {error}")
        return pytest.ExitCode.USAGE_ERROR
    except OSError as error:
        state.errors.append(unwritten(error))
        return pytest.ExitCode.TESTS_FAILED


def unwritten(error: OSError) -> str:
    """Files are written all or none; where even that went wrong, the error says which were."""
    if isinstance(error, writing.PartlyWrittenError):
        return f"not all baselines were written: {error}"
    return f"no baseline was written: {writing.reason(error)}"


def _write(state: State) -> pytest.ExitCode | None:
    settings = state.settings
    saved = baselines.Saved()
    changes: tuple[baselines.Change, ...] = ()
    with baselines.drafted(settings.baselines) as draft:
        if settings.update_baselines:
            saved = _save(state, draft)
        if settings.rebase:
            measured = [(state.keys[spec], case) for spec, case in _judged(state).items()]
            occasion = _occasion(state, settings.rebase)
            changes += baselines.rebase(draft, measured, occasion=occasion)
        if settings.prune_baselines:
            occasion = _occasion(state, "pruned")
            changes += baselines.prune(draft, _asked(state), occasion=occasion)
    state.changes = (*saved.changes, *changes)
    state.notes.extend(refusal.text for refusal in saved.refusals)
    return pytest.ExitCode.TESTS_FAILED if saved.refusals else None


def _save(state: State, draft: baselines.Draft) -> baselines.Saved:
    assert state.target is not None
    settings = state.settings
    return baselines.save(
        draft,
        _accepted(state),
        occasion=_occasion(state, settings.accept_regression),
        rules=baselines.Rules(
            budget=judge.POLICIES[state.target.device].budget,
            accept_regression=bool(settings.accept_regression),
            only_new=settings.update_baselines == "new",
        ),
    )


def _occasion(state: State, reason: str) -> baselines.Occasion:
    assert state.environment is not None
    today = datetime.date.today().isoformat()
    return baselines.Occasion(
        date=today,
        commit=state.environment.commit,
        reason=reason,
        surroundings=machine.surroundings(state.environment),
    )


def _judged(state: State) -> dict[Spec, Case]:
    """The measured cases whose verdict is no failure of measuring, each Case once."""
    spec_of = {
        measurement.case: spec
        for spec, measurement in state.measurements.items()
        if spec in state.verdicts and judge.may_become_baseline(state.verdicts[spec])
    }
    return {spec: case for case, spec in spec_of.items()}


def _accepted(state: State) -> list[baselines.Accepted]:
    accepted = []
    for spec, case in _judged(state).items():
        outcome = state.verdicts[spec].outcome
        if state.settings.update_baselines == "improved" and outcome is not Outcome.IMPROVED:
            continue
        if outcome is Outcome.NOISY:
            state.notes.append(f"{case.name}: the baseline was not written: NOISY")
            continue
        measurement = state.measurements[spec]
        accepted.append(
            baselines.Accepted(
                key=state.keys[spec],
                measurement=measurement,
                times_s=_times_s(measurement),
                anchors_s=stats.anchors_s(measurement.runs),
                # The level did not change: these launches are more of the same.
                append=outcome is Outcome.PASS,
                memory_limit_bytes=state.settings.memory_limit_bytes,
            )
        )
    return accepted


def _times_s(measurement: Measurement) -> tuple[float, ...]:
    return tuple(stats.launch_time_s(run) for run in measurement.runs)


def _asked(state: State) -> list[tuple[EnvironmentKey, Case]]:
    """Every case of the options' grid, deselected or not, whose file a measured case is in."""
    assert state.target is not None
    touched = {_file_of(state.keys[spec], m.case) for spec, m in state.measurements.items()}
    asked = []
    for spec in state.grid:
        try:
            case, key = cases.resolve(spec, state.target), state.target.key(spec)
        except GridError:
            # No case on this device: there is no baseline of it here that could be meant.
            continue
        if _file_of(key, case) in touched:
            asked.append((key, case))
    return asked


def _file_of(key: EnvironmentKey, case: Case) -> tuple[EnvironmentKey, str]:
    return key, case.key.file_name

"""What a session that compiled writes to baselines: only what was asked for and can be stored."""

from __future__ import annotations

import datetime

import pytest

from busbw import baselines
from busbw.model import CompiledVerdict, Failure, FailureKind, Outcome, SessionOutcome

from . import updating
from .state import State


def write(state: State) -> pytest.ExitCode | None:
    """Write what was asked for, once. The exit code that it calls for; None: as it was."""
    asked = state.settings.update_baselines
    found = state.session_verdict
    if not asked:
        return None
    if found is None or found.outcome is not SessionOutcome.FINE:
        why = f"{found.outcome.value}: {found.text}" if found else "the session was not judged"
        state.notes.append(f"no baseline was written: {why}")
        return None
    today = datetime.date.today().isoformat()
    try:
        state.compiled_changes = baselines.save_compiled(
            state.settings.baselines, _accepted(state), date=today, only_new=asked == "new"
        )
    except baselines.BaselineError as error:
        state.notes.append(f"no baseline was written: {error}")
        return pytest.ExitCode.USAGE_ERROR
    except OSError as error:
        state.errors.append(updating.unwritten(error))
        return pytest.ExitCode.TESTS_FAILED
    return None


def _accepted(state: State) -> list[baselines.AcceptedCompiled]:
    """Programs, and cases that are out of memory; an error or a lost collective is no baseline."""
    accepted = []
    for spec, (key, case, now) in state.compiled_results.items():
        verdict = state.compiled[spec]
        if _may_be_stored(verdict, now) and _was_asked(verdict, state.settings.update_baselines):
            accepted.append(
                baselines.AcceptedCompiled(key=key, case=case, now=now, release=verdict.release)
            )
    return accepted


def _may_be_stored(verdict: CompiledVerdict, now: object) -> bool:
    if verdict.failed:
        return False
    return not isinstance(now, Failure) or now.kind is FailureKind.OUT_OF_MEMORY


def _was_asked(verdict: CompiledVerdict, asked: str) -> bool:
    return asked != "improved" or verdict.outcome is Outcome.IMPROVED

"""Specs to Cases on the machine that was found; what cannot be measured there, and why."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from busbw import cases
from busbw.model import Case, GridError, NotHereError, Outcome, OwnProcesses, Spec, Verdict

from .settings import Settings, how_to_get
from .state import State


def resolved(state: State, specs: Sequence[Spec], target: cases.Target) -> dict[Spec, Case]:
    """The Cases; a Spec that is for other devices or other sessions is SKIPPED, and says why.

    Raises pytest.UsageError for a Spec that nothing can be made of.
    """
    found = {}
    for spec in specs:
        reason = _left_out(spec, state.settings, target)
        try:
            case = None if reason else cases.resolve(spec, target)
        except NotHereError as error:
            case, reason = None, str(error)
        except GridError as error:
            raise pytest.UsageError(f"busbw: {error}") from error
        if case is None:
            state.verdicts[spec] = Verdict(
                spec=spec, outcome=Outcome.SKIPPED, failed=False, text=reason
            )
        else:
            found[spec] = case
    return found


def _left_out(spec: Spec, settings: Settings, target: cases.Target) -> str:
    """Why `spec` is not measured, though it may well be one; else empty."""
    if spec.framework in settings.absent_frameworks:
        return f"{spec.framework}: not installed here; {how_to_get(spec.framework)}"
    if spec.framework in target.unreached:
        return f"{spec.framework}: {target.unreached[spec.framework]}"
    if not isinstance(spec.workload, OwnProcesses):
        return ""
    if settings.against is not None:
        return "--against: groups of processes are not measured in turn with those of another stack"
    if settings.injection is not None:
        return "--inject: nothing is injected into groups of processes"
    return ""

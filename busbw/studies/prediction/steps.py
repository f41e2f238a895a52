"""Training steps from the results of a session: what each took, and the all-reduce inside of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from busbw import baselines, wire
from busbw.commands.arguments import UsageError
from busbw.commands.measured import case_seconds, checked_seconds, refused, timed_cases
from busbw.model import Case, EnvironmentKey

from .row import PredictedStep


def steps_in(path: Path) -> tuple[EnvironmentKey, Sequence[PredictedStep]]:
    """Where the results in `path` were measured, and their training steps, not yet predicted.

    Raises UsageError; none is an error, too.
    """
    with refused(path):
        raw = baselines.read_json(path)
        if not isinstance(raw, dict) or "cases" not in raw:
            raise wire.WireError("no results of a session (cases)")
        key, timed = timed_cases(raw)
        steps = [_step(*one) for one in timed if not one[2].workload.is_bare]
    if not steps:
        raise UsageError(f"{path}: holds no time of a training step; `-m training` measures them")
    return key, steps


def _step(place: str, row: Mapping[str, Any], case: Case) -> PredictedStep:
    launches = row.get("launches")
    if not isinstance(launches, list) or not all(isinstance(one, dict) for one in launches):
        raise wire.WireError(f"{place}.launches: expected a list of objects")
    inside = [
        wire.from_json(
            dict[str, float], one["over_ranks_s"], f"{place}.launches[{number}].over_ranks_s"
        )
        for number, one in enumerate(launches)
        if one.get("over_ranks_s")
    ]
    return PredictedStep(
        case=case,
        step_s=case_seconds(row, place),
        # Nobody waits on the rank that comes last: its all-reduce is the shortest.
        last_s=_median(inside, "fastest", f"{place}.launches"),
        first_s=_median(inside, "slowest", f"{place}.launches"),
    )


def _median(inside: Sequence[Mapping[str, float]], name: str, place: str) -> float | None:
    if not inside:
        return None
    if not all(one.get(name, 0.0) > 0 for one in inside):
        raise wire.WireError(f"{place}: over_ranks_s: expected {name}, seconds above 0")
    return statistics.median(
        checked_seconds(one[name], place, f"over_ranks_s.{name}") for one in inside
    )

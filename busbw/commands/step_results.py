"""Training steps from the results of a session: what each took, and the all-reduce inside of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw import baselines, wire
from busbw.model import Case, EnvironmentKey

from .measured import asked_wrongly, case_seconds, checked_seconds, timed_cases
from .workload import AskedWrongly


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredStep:
    """A step's seconds; its all-reduce's on the rank that came last, and on the first one.

    The latter are None where no launch recorded them.
    """

    case: Case
    seconds: float
    last_s: float | None
    first_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResults:
    """All steps of one session, and where it measured."""

    path: Path
    key: EnvironmentKey
    steps: tuple[MeasuredStep, ...]


def steps_in(path: Path) -> StepResults:
    """The training steps of the results in `path`. Raises AskedWrongly; none is an error, too."""
    try:
        raw = baselines.read_json(path)
        if not isinstance(raw, dict) or "cases" not in raw:
            raise wire.WireError("no results of a session (cases)")
        key, timed = timed_cases(raw)
        steps = tuple(
            _step(row, where, case) for where, row, case in timed if not case.workload.is_bare
        )
    except (baselines.BaselineError, wire.WireError) as error:
        raise asked_wrongly(path, error) from error
    if not steps:
        raise AskedWrongly(f"{path}: holds no time of a training step; `-m training` measures them")
    return StepResults(path=path, key=key, steps=steps)


def _step(row: Mapping[str, Any], where: str, case: Case) -> MeasuredStep:
    launches = row.get("launches")
    if not isinstance(launches, list) or not all(isinstance(one, dict) for one in launches):
        raise wire.WireError(f"{where}.launches: expected a list of objects")
    inside = [
        wire.from_json(
            dict[str, float], one["over_ranks_s"], f"{where}.launches[{place}].over_ranks_s"
        )
        for place, one in enumerate(launches)
        if one.get("over_ranks_s")
    ]
    return MeasuredStep(
        case=case,
        seconds=case_seconds(row, where),
        # Nobody waits on the rank that comes last: its all-reduce is the shortest.
        last_s=_median(inside, "fastest", where),
        first_s=_median(inside, "slowest", where),
    )


def _median(inside: list[dict[str, float]], name: str, where: str) -> float | None:
    if not inside:
        return None
    if not all(one.get(name, 0.0) > 0 for one in inside):
        raise wire.WireError(f"{where}.launches: over_ranks_s: expected {name}, seconds above 0")
    place = f"{where}.launches"
    return statistics.median(
        checked_seconds(one[name], place, f"over_ranks_s.{name}") for one in inside
    )

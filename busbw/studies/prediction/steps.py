"""Training steps from the results of a session, and their predictions: the figures of one row.

The times of each step and of the all-reduce inside of it are read strictly; the command adds the
prediction from a curve.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw import baselines, wire
from busbw.commands.command import UsageError
from busbw.commands.curve import Line, case_seconds, checked_seconds, refused, timed_cases
from busbw.model import Case, EnvironmentKey

# Launches of one and the same all-reduce differ by 15 to 35 % below 16M, and each side of the
# ratio is a median over a few of them: what is closer than this says nothing against the model.
AGREEMENT = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedStep:
    """A training case: what its communication should take, and what it took.

    `step_s` is the whole step. `predicted_s` is read from a measured curve, `how` says how; `line`
    is fitted to that curve. Both are None where nothing predicts, and `unpredicted` says why.
    `last_s` and `first_s` are the all-reduce inside of the step, by the profiler, on the rank that
    reaches it last and on the first one; None where they were not recorded. `single_s` is the step
    of one device that does all the work, where that stands in for a recording.
    """

    case: Case
    step_s: float
    predicted_s: float | None = None
    how: str = ""
    line: Line | None = None
    unpredicted: str = ""
    last_s: float | None = None
    first_s: float | None = None
    single_s: float | None = None

    @property
    def measured_s(self) -> float | None:
        """The communication: the last rank's, else what the step takes beyond one device's.

        The latter is negative where the step is the shorter one.
        """
        if self.last_s is not None:
            return self.last_s
        return None if self.single_s is None else self.step_s - self.single_s

    @property
    def line_s(self) -> float | None:
        """What the line predicts."""
        return None if self.line is None else self.line.seconds(self.case.payload_bytes)

    @property
    def ratio(self) -> float | None:
        """Measured over predicted by the curve; None where one of them is missing."""
        return _over(self.measured_s, self.predicted_s)

    @property
    def line_ratio(self) -> float | None:
        """Measured over predicted by the line."""
        return _over(self.measured_s, self.line_s)

    @property
    def share(self) -> float | None:
        """The communication's part of the step."""
        return _over(self.measured_s, self.step_s)


def agrees(ratio: float) -> bool:
    """Whether measured and predicted are as close as `AGREEMENT`, whichever is the larger."""
    return 1 / (1 + AGREEMENT) <= ratio <= 1 + AGREEMENT


def _over(part_s: float | None, whole_s: float | None) -> float | None:
    return None if part_s is None or whole_s is None else part_s / whole_s


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


def _step(location: str, row: Mapping[str, Any], case: Case) -> PredictedStep:
    launches = row.get("launches")
    if not isinstance(launches, list) or not all(isinstance(one, dict) for one in launches):
        raise wire.WireError(f"{location}.launches: expected a list of objects")
    inside = [
        wire.from_json(
            dict[str, float], one["over_ranks_s"], f"{location}.launches[{number}].over_ranks_s"
        )
        for number, one in enumerate(launches)
        if one.get("over_ranks_s")
    ]
    return PredictedStep(
        case=case,
        step_s=case_seconds(row, location),
        # The rank that comes last does not wait: its all-reduce is the shortest.
        last_s=_median(inside, "fastest", f"{location}.launches"),
        first_s=_median(inside, "slowest", f"{location}.launches"),
    )


def _median(inside: Sequence[Mapping[str, float]], name: str, location: str) -> float | None:
    if not inside:
        return None
    if not all(one.get(name, 0.0) > 0 for one in inside):
        raise wire.WireError(f"{location}: over_ranks_s: expected {name}, seconds above 0")
    return statistics.median(
        checked_seconds(one[name], location, f"over_ranks_s.{name}") for one in inside
    )

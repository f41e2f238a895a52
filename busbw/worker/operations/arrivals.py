"""When a process enters and leaves collectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busbw.model.case import Case
from busbw.model.launch import Arrivals
from busbw.model.machine import EnvironmentKey
from busbw.worker.measure import MeasureSession
from busbw.worker.serve import value_of


def arrivals(session: MeasureSession, request: Mapping[str, Any]) -> Arrivals:
    """Record when this process enters and leaves collectives, without a barrier before them.

    The first collective, which may compile, is left out. Raises MeasuringError.
    """
    case, backend = value_of(request, "case", Case), session.backend
    backend.world().check(case, value_of(request, "key", EnvironmentKey))
    times: list[tuple[float, float]] = []
    with backend.prepared(case) as program:
        for _ in range(value_of(request, "rounds", int) + 1):
            program.fresh()
            came_s = backend.now_s()
            program.run(program.step)
            times.append((came_s, backend.now_s()))
    came, left = zip(*times[1:])
    return Arrivals(came_s=came, left_s=left)

"""What finds slow hosts: single chips, the links between them, and when a process arrives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busbw.model.case import Case
from busbw.model.launch import Arrivals, Chips
from busbw.model.machine import EnvironmentKey
from busbw.worker import backends
from busbw.worker.backends.base import unavailable
from busbw.worker.measure import MeasureSession
from busbw.worker.serve import value_of


def chips(session: MeasureSession, request: Mapping[str, Any]) -> Chips:
    """Measure each chip of this process or, with a payload, the links to it.

    Raises MeasuringError.
    """
    lowering = backends.part(session.backend.name, "chips")
    if lowering is None:
        raise unavailable("single chips are measured by JAX alone")
    rounds, payload_bytes = (value_of(request, name, int) for name in ("rounds", "payload_bytes"))
    found: Chips = lowering.chips(session.backend, rounds, payload_bytes)
    return found


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

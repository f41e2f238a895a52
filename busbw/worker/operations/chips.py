"""Single chips of a process, and the links between them: what finds slow hosts of a TPU slice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busbw.model.launch import Chips
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

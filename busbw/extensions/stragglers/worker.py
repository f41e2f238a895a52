"""Time every chip of a process, and the links between chips."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from busbw.model.field_types import Natural, Seconds
from busbw.worker.backends.base import unavailable
from busbw.worker.measure import CaseMeasurer
from busbw.worker.serve import request_value


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipTimes:
    """The times of the chips of a process, in seconds by chip and round.

    Args:
        ranks: The ranks of the chips.
        compute_s: The times of a computation.
        copy_s: The times of a copy.
        links_s: Maps each direction, such as ``x+``, to the times of permutes at their receivers.
        pairs: Maps each direction to the (sender, receiver) pairs of all processes.

    """

    ranks: tuple[Natural, ...]
    compute_s: tuple[tuple[Seconds, ...], ...] = ()
    copy_s: tuple[tuple[Seconds, ...], ...] = ()
    links_s: Mapping[str, tuple[tuple[Seconds, ...], ...]] = field(default_factory=dict)
    pairs: Mapping[str, tuple[tuple[Natural, ...], ...]] = field(default_factory=dict)


def measure_chips(session: CaseMeasurer, request: Mapping[str, Any]) -> ChipTimes:
    """Time a computation and a copy on each chip of this process, and on TPUs the links to them.

    The request contains `rounds`, the number of times to measure, and `payload_bytes`, which are
    sent over each link.

    Raises MeasuringError if the framework is not JAX, or if the recording of the links is
    incomplete.
    """
    if importlib.util.find_spec(f"{__name__}_{session.backend.name}") is None:
        raise unavailable("only JAX measures single chips")
    rounds, payload_bytes = (
        request_value(request, name, int) for name in ("rounds", "payload_bytes")
    )
    framework = importlib.import_module(f"{__name__}_{session.backend.name}")
    times: ChipTimes = framework.measure_chips(session.backend, rounds, payload_bytes)
    return times

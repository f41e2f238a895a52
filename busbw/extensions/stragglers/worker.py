"""Answer the request `chips` of a worker: time every chip of its process, and the links."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from busbw.model.field_types import Natural, Seconds
from busbw.worker.backends.base import unavailable
from busbw.worker.measure import MeasuringWorker
from busbw.worker.serve import request_value


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipTimes:
    """The times of the chips of one process, and of the links between chips.

    Times are in seconds: a row for each chip, in the order of `ranks`, has the time of each round.

    Attributes:
        ranks: The ranks of the chips of this process.
        compute_s: The times of a fixed computation.
        copy_s: The times of a copy in the memory of the chip.
        links_s: Maps each direction, such as ``x+``, to the times of the permutes that each chip
            receives. Empty if no links were timed.
        pairs: Maps each direction to the (sender, receiver) ranks of its links, of all processes.

    """

    ranks: tuple[Natural, ...]
    compute_s: tuple[tuple[Seconds, ...], ...] = ()
    copy_s: tuple[tuple[Seconds, ...], ...] = ()
    links_s: Mapping[str, tuple[tuple[Seconds, ...], ...]] = field(default_factory=dict)
    pairs: Mapping[str, tuple[tuple[Natural, ...], ...]] = field(default_factory=dict)


def measure_chips(worker: MeasuringWorker, request: Mapping[str, Any]) -> ChipTimes:
    """Time a computation and a copy on each chip of this process, and on TPUs the incoming links.

    The `request` contains `rounds`, how often each chip and link is timed, and `payload_bytes`, the
    bytes that each link carries. `worker` has the back end of this worker.

    Raises MeasuringError if the framework is neither JAX nor `fake`, or if the profiler's recording
    of the links is incomplete.
    """
    if importlib.util.find_spec(f"{__name__}_{worker.backend.name}") is None:
        raise unavailable("only JAX measures single chips")
    rounds, payload_bytes = (
        request_value(request, name, int) for name in ("rounds", "payload_bytes")
    )
    framework = importlib.import_module(f"{__name__}_{worker.backend.name}")
    times: ChipTimes = framework.measure_chips(worker.backend, rounds, payload_bytes)
    return times

"""Time single chips of a process, and the links between them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from busbw.model.field_types import Natural, Seconds
from busbw.worker.backends.base import unavailable
from busbw.worker.measure import MeasureSession
from busbw.worker.serve import request_value


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipTimes:
    """Seconds by round of each chip of a process; `ranks` are the ranks of the chips.

    `links_s` has the times of permutes by their direction, such as ``x+``, as long as the receiving
    rank takes. `pairs` are the senders and receivers of each direction, in all processes.
    """

    ranks: tuple[Natural, ...]
    compute_s: tuple[tuple[Seconds, ...], ...] = ()
    copy_s: tuple[tuple[Seconds, ...], ...] = ()
    links_s: Mapping[str, tuple[tuple[Seconds, ...], ...]] = field(default_factory=dict)
    pairs: Mapping[str, tuple[tuple[Natural, ...], ...]] = field(default_factory=dict)


def chips(session: MeasureSession, request: Mapping[str, Any]) -> ChipTimes:
    """Time each chip of this process or, with a payload, the links to it.

    Raises MeasuringError.
    """
    if importlib.util.find_spec(f"{__name__}_{session.backend.name}") is None:
        raise unavailable("only JAX measures single chips")
    rounds, payload_bytes = (
        request_value(request, name, int) for name in ("rounds", "payload_bytes")
    )
    framework = importlib.import_module(f"{__name__}_{session.backend.name}")
    times: ChipTimes = framework.chips(session.backend, rounds, payload_bytes)
    return times

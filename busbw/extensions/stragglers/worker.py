"""The times of chips, as workers reply to the requests `chips_jax` and `chips_fake`.

The times of the framework `fake` come from the key `chips` in its script. Each process has `count`
chips. `slower` maps the numbers of the slow chips in each process to the seconds that a computation
takes on the chip. `then` is an event that happens when the chips are measured, such as ``hang``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from busbw.model.field_types import Seconds
from busbw.model.machine import DEFAULT_VIRTUAL_RANKS
from busbw.worker.backends.fake.backend import cause_fault
from busbw.worker.serve import request_value


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipTimes:
    """The times of the chips of one process, and of the links to these chips.

    Attributes:
        times_s: The seconds of each round, by quantity and then by chip or link. Each process has
            the quantities ``computing`` and ``copying``. On TPUs, links have a quantity for each
            direction, such as ``the link x+``. A chip is named by its rank, such as ``5``, and a
            link by the ranks of its sender and its receiver, such as ``4 5``.

    """

    times_s: Mapping[str, Mapping[str, tuple[Seconds, ...]]]


def simulate_chips(worker: Any, request: Mapping[str, Any]) -> ChipTimes:
    """Return the times that the script of the framework `fake` states, equal in all rounds.

    A computation takes 1 second, except on the slow chips of the script. A copy takes 1 second. No
    links are timed. `worker` is a MeasuringWorker, and the value `rounds` of the `request` is the
    number of rounds.
    """
    backend = worker.backend
    rounds = request_value(request, "rounds", int)
    script = backend.script.get("chips", {})
    cause_fault(script.get("then", ""))
    count = script.get("count", backend.script.get("ranks", DEFAULT_VIRTUAL_RANKS))
    chip_s = [float(script.get("slower", {}).get(str(chip), 1.0)) for chip in range(count)]
    compute_s = {
        str(rank): (seconds,) * rounds for rank, seconds in enumerate(chip_s, count * backend.index)
    }
    copy_s = dict.fromkeys(compute_s, (1.0,) * rounds)
    return ChipTimes(times_s={"computing": compute_s, "copying": copy_s})

"""The times of chips, as workers reply to the requests `chips_jax` and `chips_fake`.

The times of the framework `fake` come from the key `chips` in its script. `compute_s` lists the
seconds that a computation takes on each chip of the process. `then` is an event that happens when
the chips are measured, such as ``hang``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busbw.model.field_types import Seconds
from busbw.worker.backends.fake import cause_fault
from busbw.worker.serve import request_value

# The times of the chips of one process, and of the links to these chips: the seconds of each round,
# by quantity and then by chip or link. Each process has the quantities ``computing`` and
# ``copying``. On TPUs, links have a quantity for each direction, such as ``the link x+``. A chip is
# named by its rank, such as ``5``, and a link by the ranks of its sender and its receiver, such as
# ``4 5``.
# For a link between two hosts, each process has only the quantity ``sending``. Its directions are
# ``0 1``, from the first host to the second host, and ``1 0``.
ChipTimes = dict[str, dict[str, tuple[Seconds, ...]]]


def simulate_chips(worker: Any, request: Mapping[str, Any]) -> ChipTimes:
    """Return the times that the script of the framework `fake` states, equal in all rounds.

    By default each process has four chips, on which a computation takes 1 second. A copy takes 1
    second. No links are timed. `worker` is a MeasuringWorker, and the value `rounds` of the
    `request` is the number of rounds.
    """
    rounds = request_value(request, "rounds", int)
    script = worker.backend.script.get("chips", {})
    cause_fault(script.get("then", ""))
    compute_s = script.get("compute_s", [1.0] * 4)
    first_rank = len(compute_s) * worker.backend.index
    computing = {
        str(rank): (float(seconds),) * rounds for rank, seconds in enumerate(compute_s, first_rank)
    }
    return {"computing": computing, "copying": dict.fromkeys(computing, (1.0,) * rounds)}

"""The times of chips: the reply of a worker, and the simulated times of the framework `fake`.

The framework `fake` reads its times from a script, a JSON object in an environment variable. The
key `chips` of the script has two values. `compute_s` lists the seconds that a computation takes on
each chip of the process. `then` is a fault that happens when the chips are measured, such as
``hang``.
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
# For a link between two hosts, each process has only the quantity ``sending``. The directions are
# ``0 1``, from the first host to the second host, and ``1 0``.
ChipTimes = dict[str, dict[str, tuple[Seconds, ...]]]


def simulate_chips(worker: Any, request: Mapping[str, Any]) -> ChipTimes:
    """Return the simulated times of the chips of a process, which are equal in all rounds.

    The script of the framework `fake` gives the times of a computation. By default a process has
    four chips, and a computation takes 1 second on each chip. A copy always takes 1 second. No
    links are timed.

    Args:
        worker: The MeasuringWorker, whose back end has the script.
        request: The request, whose value `rounds` is the number of rounds.

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

"""The load of the machine, read by a worker that measures nothing.

Files `worker*.py` are sent to hosts and to other Pythons, which have only the standard library, the
framework and numpy.
"""

import os
from collections.abc import Mapping
from typing import Any


def make_worker_state(options: object) -> None:
    """Return what the operations of this worker share, here nothing; `options` has its device."""


def read_load(worker: None, request: Mapping[str, Any]) -> float:
    """Return the load of the last minute.

    `request` has the values of the Request, here none. Read a value with `request_value` of
    `busbw.worker.serve`.
    """
    return os.getloadavg()[0]

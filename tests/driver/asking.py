"""One worker asked directly, without the group that a driver puts it in."""

from __future__ import annotations

import select
import time

from busbw.driver.local import Worker
from busbw.driver.transport import Ended, Reply, Request


def answer_of(worker: Worker, request: Request | None, timeout_s: float) -> Reply | Ended:
    """What the worker answers to `request` (None: just listen), or how it ended."""
    worker.send(request)
    end_s = time.monotonic() + timeout_s
    while True:
        ready, _, _ = select.select([worker], [], [], max(0.0, end_s - time.monotonic()))
        if not ready:
            return worker.timed_out()
        answer = worker.received()
        if answer is not None:
            return answer


def await_ready(worker: Worker, timeout_s: float = 60.0) -> None:
    """Wait until it has said that it is ready, and nothing else."""
    assert answer_of(worker, None, timeout_s) == Reply(None)

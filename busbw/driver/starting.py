"""The start of a worker, a second time where the first one was cut short: killed, crashed or hung.

Such an end says nothing of what was to be measured, and would cost every case of the launch. A
process that ended by itself has said why, and would do so again.
"""

from __future__ import annotations

from collections.abc import Callable

from busbw.model import Failure, FailureKind, LaunchId

from .endings import Ended, failure_of
from .process import START_TIMEOUT_S, Worker


def cut_short(failure: Failure) -> bool:
    """Whether a process hung or died of a signal."""
    return failure.kind is FailureKind.TIMEOUT or (failure.exit_code or 0) < 0


def stopped(failure: Failure) -> bool:
    """Whether a process hung or was killed, which none does to itself."""
    return failure.kind in (FailureKind.TIMEOUT, FailureKind.KILLED)


def started_again(failure: Failure) -> str:
    """A note for the user: a launch was cut short, and there was another."""
    return f"launch {failure.launch}: {failure.message}; it was started once more"


def ready(
    worker: Worker, start: Callable[[LaunchId], Worker], on_note: Callable[[str], None]
) -> tuple[Worker, Failure | None]:
    """`worker` when it is ready, or the one that `start` gave for it; with the Failure if not.

    `start` gets a launch's id. If this is interrupted, both are over.
    """
    failure = _awaited(worker)
    if failure is None or not cut_short(failure):
        return worker, failure
    worker.kill()
    on_note(started_again(failure))
    other = start(worker.launch.again)
    return other, _awaited(other)


def _awaited(worker: Worker) -> Failure | None:
    try:
        found = worker.ask(None, START_TIMEOUT_S)
    except BaseException:
        worker.kill()
        raise
    return failure_of(found, worker.launch, "starting") if isinstance(found, Ended) else None

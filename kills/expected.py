"""What a hit may cost and no more; everything else is a surprise, in words."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from .hits import Target
from .session import Ran


def surprises(ran: Ran) -> tuple[str, ...]:
    """What should not be: something left, lost without need, or unsaid."""
    return tuple(_surprises(ran))


def _surprises(ran: Ran) -> Iterator[str]:
    if ran.processes:
        yield f"{len(ran.processes)} processes are left"
    yield from (f"left: {one}" for one in ran.left)
    if ran.exit_code is None:
        yield "the session never ended"
    elif ran.hit.target is Target.SESSION and ran.at_s is not None:
        yield from _of_session(ran)
    else:
        yield from _of_worker(ran)


def _of_session(ran: Ran) -> Iterator[str]:
    """A session that is ended keeps nothing; one that is continued loses nothing."""
    expected = {signal.SIGINT: 2, signal.SIGSTOP: 0}.get(ran.hit.signal, -ran.hit.signal)
    if ran.hit.signal is signal.SIGINT and ran.lost == 0:
        # It came when all was done and written, and only Python had to end.
        return
    if ran.exit_code != expected:
        yield f"exit code {ran.exit_code}, expected {expected}"
    if expected == 0 and ran.lost != 0:
        yield f"{ran.lost} lost"
    if expected >= 0 and ran.folders:
        yield f"{', '.join(ran.folders)} is left"


def _of_worker(ran: Ran) -> Iterator[str]:
    """At most the case that was being measured, in one launch, and that is said."""
    if ran.lost is None:
        yield f"no results, exit code {ran.exit_code}"
        return
    if ran.folders:
        yield f"{', '.join(ran.folders)} is left"
    if ran.exit_code != (1 if ran.lost else 0):
        yield f"exit code {ran.exit_code} with {ran.lost} lost"
    if ran.lost > 1:
        yield f"{ran.lost} lost by one hit"
    if ran.lost and not all("while measuring" in message for message in ran.failures):
        yield "lost while nothing was measured"
    if ran.lost and not any(line.startswith("FAILED: ") for line in ran.said):
        yield "lost and not said"

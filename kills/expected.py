"""What a hit or a fault may cost and no more; everything else is a surprise, in words."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from .faults import FOR_GOOD, Fault, Kind
from .hits import Hit
from .moments import Moment
from .session import Ran

_USAGE_ERROR = 4


def surprises(ran: Ran) -> tuple[str, ...]:
    """What should not be: something left, lost without need, or unsaid."""
    return tuple(_surprises(ran))


def _surprises(ran: Ran) -> Iterator[str]:
    if ran.processes:
        yield f"{len(ran.processes)} processes are left"
    yield from (f"left: {one}" for one in ran.left)
    if ran.exit_code is None:
        yield "the session never ended"
    elif ran.hit.ends_session and ran.at_s is not None:
        yield from _of_session(ran, _signal(ran.hit))
    elif isinstance(ran.hit, Fault) and ran.at_s is not None:
        yield from _of_host(ran, ran.hit)
    else:
        yield from _of_worker(ran)


def _signal(hit: Hit | Fault) -> signal.Signals:
    return hit.signal if isinstance(hit, Hit) else signal.SIGKILL


def _of_session(ran: Ran, sent: signal.Signals) -> Iterator[str]:
    """A session that is ended keeps nothing; one that is continued loses nothing."""
    expected = {signal.SIGINT: 2, signal.SIGSTOP: 0}.get(sent, -sent)
    if sent is signal.SIGINT and ran.lost == 0:
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
    if ran.folders and not _killed_an_agent(ran.hit):
        yield f"{', '.join(ran.folders)} is left"
    if ran.exit_code != (1 if ran.lost else 0):
        yield f"exit code {ran.exit_code} with {ran.lost} lost"
    if ran.lost > 1:
        yield f"{ran.lost} lost by one hit"
    if ran.lost and not all("while measuring" in message for message in ran.failures):
        yield "lost while nothing was measured"
    if ran.lost and not any(line.startswith("FAILED: ") for line in ran.said):
        yield "lost and not said"


def _killed_an_agent(hit: Hit | Fault) -> bool:
    """Its folder is removed by the next agent or session on its host."""
    return isinstance(hit, Fault) and hit.kind is Kind.AGENT


def _of_host(ran: Ran, fault: Fault) -> Iterator[str]:
    """A host that comes back costs what a worker does; one that is gone ends the session."""
    if ran.lost != 0 and not any(fault.host in text for text in (*ran.said, *ran.failures)):
        yield f"{fault.host} is not named"
    if fault.when.moment is Moment.JOINING and ran.exit_code == _USAGE_ERROR:
        # It was never there.
        if ran.folders:
            yield f"{', '.join(ran.folders)} is left"
    elif fault.kind in FOR_GOOD and ran.has_given_up:
        yield from _of_ended(ran)
    else:
        yield from _of_worker(ran)


def _of_ended(ran: Ran) -> Iterator[str]:
    if ran.folders:
        yield f"{', '.join(ran.folders)} is left"
    if ran.exit_code != 1:
        yield f"exit code {ran.exit_code} without a verdict"

"""A hit or a fault, carried out: its moment is waited for, then a signal sent or a link cut."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from .faults import Fault, Kind
from .ground import Ground
from .hits import Hit, Target
from .hosts import Hosts
from .moments import Moment, Usual, When, awaited, has_begun, reached

Session: TypeAlias = subprocess.Popen[bytes]

# A session that is stopped is nobody's to kill: it is continued.
STOPPED_S = 3.0

_MOMENTS = {
    Target.PROBE: Moment.PROBE,
    Target.STARTING: Moment.STARTING,
    Target.MEASURING: Moment.MEASURING,
    Target.LEAVING: Moment.LEAVING,
}


def strike(ground: Ground, session: Session, hit: Hit | Fault, usual: Usual) -> float | None:
    """When it struck, by the monotonic clock; None if the session was over before."""
    if isinstance(hit, Fault):
        return _fail(ground, session, hit, usual)
    process = _process(ground, session, hit, usual)
    if process is None:
        return None
    at_s = time.monotonic()
    _send(process, hit)
    return at_s


def _process(ground: Ground, session: Session, hit: Hit, usual: Usual) -> int | None:
    """The process to hit, at the time to hit it; None if it was over before."""
    if hit.target is Target.SESSION:
        # Before that it is no session yet, and Python's own to end.
        awaited(session, lambda: has_begun(ground))
        time.sleep(hit.fraction * usual.session_s)
        return session.pid if session.poll() is None else None
    if hit.target is Target.AGENT:
        awaited(session, lambda: ground.agent(hit.member) is not None)
        time.sleep(hit.fraction * usual.session_s)
        return ground.agent(hit.member)
    moment = _MOMENTS[hit.target]
    when = When(moment=moment, launch=hit.launch, fraction=hit.fraction, member=hit.member)
    if not reached(ground, session, when, usual):
        return None
    is_probe = moment is Moment.PROBE
    launch = ground.probe(hit.member) if is_probe else ground.launch(hit.launch, hit.member)
    return ground.workers().get(launch)


def _send(process: int, hit: Hit) -> None:
    """The process may have ended a moment ago: that is a moment as good as any."""
    try:
        os.kill(process, hit.signal)
        if hit.target is Target.SESSION and hit.signal is signal.SIGSTOP:
            time.sleep(STOPPED_S)
            os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        return


def _fail(ground: Ground, session: Session, fault: Fault, usual: Usual) -> float | None:
    hosts, rank = ground.place, fault.when.member
    assert isinstance(hosts, Hosts)
    if not reached(ground, session, fault.when, usual) or session.poll() is not None:
        return None
    at_s = time.monotonic()
    if fault.kind is Kind.SESSION:
        session.kill()
    elif fault.kind is Kind.AGENT:
        return _killed(session, lambda: hosts.agent(rank))
    elif fault.kind is Kind.SSH:
        return _killed(session, lambda: hosts.ssh(rank))
    elif fault.kind is Kind.HOST:
        return awaited(session, lambda: hosts.stop(rank))
    else:
        hosts.cut(rank)
    if fault.kind is Kind.CUT_FOR_A_WHILE:
        with contextlib.suppress(subprocess.TimeoutExpired):
            session.wait(fault.cut_s)
        hosts.restore()
    return at_s


def _killed(session: Session, victims: Callable[[], Sequence[int]]) -> float | None:
    """Kill these as soon as there is one; when that was."""
    at_s = awaited(session, lambda: bool(victims()))
    for process in victims():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return at_s

"""When a session is hit: at a random point of one of its parts, which is waited for."""

from __future__ import annotations

import enum
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from .ground import Ground

_LOOK_S = 0.01


class Moment(str, enum.Enum):
    """A part of a session."""

    JOINING = "agents join"
    PROBE = "probe"
    STARTING = "starting"
    MEASURING = "measuring"
    LEAVING = "leaving"


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """How long the parts of an undisturbed session take, in seconds."""

    session_s: float
    join_s: float
    probe_s: float
    start_s: float
    measure_s: float

    def of(self, moment: Moment) -> float:
        """Who leaves does so while the next one starts."""
        return {
            Moment.JOINING: self.join_s,
            Moment.PROBE: self.probe_s,
            Moment.MEASURING: self.measure_s,
        }.get(moment, self.start_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class When:
    """`fraction` of this part of a session is over: of its launch 1 or 2, and of this member."""

    moment: Moment
    launch: int
    fraction: float
    member: int = 0


def reached(ground: Ground, session: subprocess.Popen[bytes], when: When, usual: Usual) -> bool:
    """Wait for it; whether the session was still there when that part of it began."""
    if not awaited(session, lambda: _has_begun(ground, when)):
        return False
    time.sleep(when.fraction * usual.of(when.moment))
    return True


def _has_begun(ground: Ground, when: When) -> bool:
    if when.moment is Moment.JOINING:
        # Before that it is no session yet.
        return has_begun(ground)
    launch = ground.launch(when.launch, when.member)
    if when.moment is Moment.PROBE:
        launch = ground.probe(when.member)
    if when.moment is Moment.LEAVING:
        launch = ground.launch(when.launch + 1, when.member)
    is_there = launch in ground.workers()
    return is_there and (when.moment is not Moment.MEASURING or ground.measures(launch))


def has_begun(ground: Ground) -> bool:
    """Whether pytest has said that there is a session."""
    return "test session starts" in ground.output


def awaited(session: subprocess.Popen[bytes], true: Callable[[], bool]) -> float | None:
    """When it came true, by the monotonic clock; None if the session ended before."""
    while not true():
        if session.poll() is not None:
            return None
        time.sleep(_LOOK_S)
    return time.monotonic()

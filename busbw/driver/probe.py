"""What is there: one worker per framework, with a deadline, and another if that is cut short."""

from __future__ import annotations

from collections.abc import Callable

from busbw import wire
from busbw.model import Failure, LaunchId, Probe

from .bundle import Bundle
from .endings import Ended, failure_of
from .process import Starter, Worker
from .starting import cut_short, started_again

PROBE_TIMEOUT_S = 180.0

_PROBE = LaunchId(name="probe")


class ProbeFailed(Exception):
    """A framework that could not be asked; the message says how its worker ended."""


class ProbeCutShort(ProbeFailed):
    """The worker hung or died of a signal, and so did another: that says nothing of the request."""


def probe(
    starter: Starter, bundle: Bundle, on_note: Callable[[str], None] = lambda note: None
) -> Probe:
    """What the framework of `starter` reaches.

    Raises ProbeFailed with the end of the log, and ProbeCutShort for a second worker that hung or
    died of a signal.
    """
    answer = _asked(starter, bundle, _PROBE)
    if isinstance(answer, Probe):
        return answer
    if cut_short(answer):
        on_note(started_again(answer))
        answer = _asked(starter, bundle, _PROBE.again)
        if isinstance(answer, Probe):
            return answer
    if cut_short(answer):
        raise ProbeCutShort(f"{_words(starter, answer)}; it was tried twice")
    raise ProbeFailed(_words(starter, answer))


def _asked(starter: Starter, bundle: Bundle, launch: LaunchId) -> Probe | Failure:
    worker = Worker(starter, bundle, launch)
    try:
        answer = worker.ask(None, PROBE_TIMEOUT_S)
        if not isinstance(answer, Ended):
            answer = worker.ask({"request": "probe"}, PROBE_TIMEOUT_S)
        if isinstance(answer, Ended):
            return failure_of(answer, launch, f"looking for devices with {starter.framework}")
        return wire.from_json(Probe, answer[1], "probe")
    finally:
        worker.kill()


def _words(starter: Starter, failure: Failure) -> str:
    last = failure.log.splitlines()[-1] if failure.log else "nothing in its log"
    return f"{starter.python}: {failure.message}: {last}"

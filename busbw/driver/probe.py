"""What is there: one worker per framework, asked once, with a deadline."""

from __future__ import annotations

from busbw import wire
from busbw.model import Probe

from .bundle import Bundle
from .endings import Ended, failure_of
from .process import Starter, Worker

PROBE_TIMEOUT_S = 180.0


class ProbeFailed(Exception):
    """A framework that could not be asked; the message says how its worker ended."""


def probe(starter: Starter, bundle: Bundle) -> Probe:
    """What the framework of `starter` reaches. Raises ProbeFailed with the end of the log."""
    worker = Worker(starter, bundle, "probe")
    try:
        answer = worker.ask(None, PROBE_TIMEOUT_S)
        if not isinstance(answer, Ended):
            answer = worker.ask({"request": "probe"}, PROBE_TIMEOUT_S)
        if isinstance(answer, Ended):
            raise ProbeFailed(_words(starter, answer))
        return wire.from_json(Probe, answer[1], "probe")
    finally:
        worker.kill()


def _words(starter: Starter, ended: Ended) -> str:
    failure = failure_of(ended, "probe", f"looking for devices with {starter.framework}")
    last = failure.log.splitlines()[-1] if failure.log else "nothing in its log"
    return f"{starter.python}: {failure.message}: {last}"

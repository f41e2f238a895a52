"""What is there: one worker per framework, with a deadline, and another if that is cut short."""

from __future__ import annotations

from busbw.model import Failure, LaunchId, Probe

from .executor import Executor, cut_short, started_again
from .group import Group
from .transport import Request, Starter

PROBE_TIMEOUT_S = 180.0

_PROBE = LaunchId(name="probe")


class ProbeFailed(Exception):
    """A framework that could not be asked; the message says how its worker ended."""


class ProbeCutShort(ProbeFailed):
    """The worker hung or died of a signal, and so did another: that says nothing of the request."""


def probe(starter: Starter, executor: Executor) -> Probe:
    """What the framework of `starter` reaches.

    Raises ProbeFailed with the end of the log, and ProbeCutShort for a second worker that hung or
    died of a signal.
    """
    answer = _asked(starter, executor, _PROBE)
    if isinstance(answer, Failure) and cut_short(answer):
        executor.on_note(started_again(answer))
        answer = _asked(starter, executor, _PROBE.again)
        if isinstance(answer, Failure) and cut_short(answer):
            raise ProbeCutShort(f"{_words(starter, answer)}; it was tried twice")
    if isinstance(answer, Failure):
        raise ProbeFailed(_words(starter, answer))
    return answer


def _asked(starter: Starter, executor: Executor, launch: LaunchId) -> Probe | Failure:
    group = executor.start(starter, launch)
    try:
        doing = f"looking for devices with {starter.framework}"
        answer = _probed(group, doing)
    finally:
        executor.end(group)
    return answer


def _probed(group: Group, doing: str) -> Probe | Failure:
    failure = group.begin(PROBE_TIMEOUT_S, doing)
    if failure is not None:
        return failure
    answer = group.ask(Request("probe"), PROBE_TIMEOUT_S, doing)
    assert isinstance(answer, (Probe, Failure))
    return answer


def _words(starter: Starter, failure: Failure) -> str:
    return f"{starter.python}: {failure.message}: {failure.last_line}"

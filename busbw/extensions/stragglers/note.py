"""The note that tells the user of several hosts how to find a slow host or link."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.model.words import Outcome
from busbw.session.state import JudgedSession, MeasuredSession


def notes_of(judged_session: JudgedSession) -> Iterator[str]:
    """Yield a note that names `busbw find-slow` if a case became slower on several hosts."""
    is_slower = any(v.outcome is Outcome.REGRESSED for v in judged_session.verdicts.values())
    measured_session = judged_session.observations
    if (
        is_slower
        and isinstance(measured_session, MeasuredSession)
        and measured_session.environment.key.hosts > 1
    ):
        yield "which host or link is slow: busbw find-slow, with --hosts or --cluster as here"

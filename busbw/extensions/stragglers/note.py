"""The note that tells the user of several hosts how to find a slow host or link."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.model.words import Outcome
from busbw.session.state import Judged, Measured


def notes_of(judged: Judged) -> Iterator[str]:
    """Yield a note that names `busbw find-slow` if a case became slower on several hosts."""
    is_slower = any(v.outcome is Outcome.REGRESSED for v in judged.verdicts.values())
    measured = judged.observations
    if is_slower and isinstance(measured, Measured) and measured.environment.key.hosts > 1:
        yield "which host or link is slow: busbw find-slow, with --hosts or --cluster as here"

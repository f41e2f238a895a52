"""Whether baselines and the history agree on the sessions that both of them have.

A session that is accepted is written to both, with the same times. Where they differ, one of the
files was changed since, and nobody can tell which times are true.
"""

from __future__ import annotations

from collections.abc import Iterable

from busbw.model.stored import Baseline, Record
from busbw.model.words import payload_text

from .lines import Line


class DisagreementError(ValueError):
    """A baseline that the history contradicts; the message says which session and how."""


def check(baseline: Baseline, lines: Iterable[Line]) -> None:
    """Raise DisagreementError if `baseline` contradicts one of `lines`."""
    case = baseline.case
    own = [line for line in lines if line.case == case and not line.is_reference]
    for record in baseline.records:
        known = [one for one in own if one.at == record.at]
        if known and all(one.times_us != record.times_us for one in known):
            raise DisagreementError(
                f"{case.dtype} {payload_text(case.payload_bytes)}: the session of {record.at} has "
                f"{_times_text(record)} here, {_times_text(known[0])} in the history: one "
                "of the two files was changed since; restore it, or remove the entry and accept "
                "new times"
            )


def _times_text(record: Record) -> str:
    if not record.times_us:
        return "no time"
    return f"{', '.join(f'{time_us:g}' for time_us in record.times_us)} us"

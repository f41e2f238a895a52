"""Whether the stored sessions of a baseline agree with the clock, the history, and one another.

An accepted session is written to the baseline and to the history, with the same times. Where the
two differ, a file was changed since, and it is unknown which times are true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from busbw.model.case import Case
from busbw.model.limits import moment_text
from busbw.model.stored import MOST_SESSIONS, Baseline, Record
from busbw.model.words import payload_text

from .lines import Line

_REMEDY = "a file was changed since; restore it, or remove the entry and accept new times"


class DisagreementError(ValueError):
    """A session that contradicts another value; the message names the case and the session."""


def check_moment(case: Case, record: Record, present: datetime) -> None:
    """Raise DisagreementError for a `record` that began more than a day after `present`."""
    # Clocks of two machines may differ by an hour or by their idea of the time zone.
    if record.began > present + timedelta(days=1):
        raise DisagreementError(
            f"{_name(case)}: the session of {record.moment} is in the future, since the clock of "
            f"this machine says {moment_text(present)}: set the clock, or remove the entry"
        )


def check_times(baseline: Baseline, lines: Sequence[Line]) -> None:
    """Raise DisagreementError for a baseline with other times than `lines`, or another level."""
    of_case = [line for line in lines if line.case == baseline.case and not line.is_reference]
    for record in baseline.records:
        same = [line for line in of_case if line.moment == record.moment]
        if same and all(line.times_us != record.times_us for line in same):
            raise DisagreementError(
                f"{_name(baseline.case)}: the session of {record.moment} has {_times_text(record)} "
                f"here, {_times_text(same[0])} in the history: {_REMEDY}"
            )
    if not _is_level_of_its_date(baseline):
        raise DisagreementError(
            f"{_name(baseline.case)}: pinned_us is {baseline.pinned_us:g} on "
            f"{baseline.pinned_date}, expected the level of the sessions up to that date: {_REMEDY}"
        )


def _is_level_of_its_date(baseline: Baseline) -> bool:
    """Return whether the accepted time is the level of the sessions up to its date."""
    records, date = baseline.records, baseline.pinned_date
    if date is None or baseline.pinned_us is None or date < records[0].date:
        return True
    levels = (
        replace(baseline, records=records[: index + 1]).level_us
        for index, record in enumerate(records)
        if record.date == date
    )
    # Older sessions, of which the level was made, may have been dropped. Both have six digits.
    return len(records) == MOST_SESSIONS or any(
        level and math.isclose(level, baseline.pinned_us, rel_tol=1e-5) for level in levels
    )


def _name(case: Case) -> str:
    return f"{case.dtype} {payload_text(case.payload_bytes)}"


def _times_text(record: Record) -> str:
    times = ", ".join(f"{time_us:g} us" for time_us in record.times_us)
    return times or "no time"

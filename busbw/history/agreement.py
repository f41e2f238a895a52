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
from busbw.model.stored import MOST_SESSIONS, MOST_UPDATES, PASSING, Baseline, Record
from busbw.model.words import payload_text

from .lines import Line

_REMEDY = "a file was changed since; restore it, or remove the entry and accept new times"


class DisagreementError(ValueError):
    """A session that contradicts another value; the message names the case and the session."""


# Clocks of two machines may differ by an hour or by their idea of the time zone.
_CLOCKS_DIFFER = timedelta(days=1)


def check_date(change: str, date: str, present: datetime) -> None:
    """Raise DisagreementError for a `change`, in words, on a date that is after `present`."""
    if date > str((present + _CLOCKS_DIFFER).date()):
        raise DisagreementError(
            f"{change} of {date} is in the future, since the clock of this machine says "
            f"{moment_text(present)}: set the clock, or correct the date"
        )


def check_moment(case: Case, record: Record, present: datetime) -> None:
    """Raise DisagreementError for a `record` that began more than a day after `present`."""
    if record.began > present + _CLOCKS_DIFFER:
        raise DisagreementError(
            f"{_name(case)}: the session of {record.moment} is in the future, since the clock of "
            f"this machine says {moment_text(present)}: set the clock, or remove the entry"
        )


def check_times(baseline: Baseline, lines: Sequence[Line]) -> None:
    """Raise DisagreementError for a baseline whose times differ from the times of `lines`."""
    of_case = [line for line in lines if line.case == baseline.case and not line.is_reference]
    for record in baseline.records:
        same = [line for line in of_case if _is_of_same_session(line, record)]
        if same and all(line.times_us != record.times_us for line in same):
            raise DisagreementError(
                f"{_name(baseline.case)}: the session of {record.moment} has {_times_text(record)} "
                f"here, {_times_text(same[0])} in the history: {_REMEDY}"
            )


def _is_of_same_session(line: Line, record: Record) -> bool:
    """Return whether a line is of the session that was accepted, and of no other machine's.

    Machines that share baselines may all begin at the second that their schedules name.
    """
    return line.moment == record.moment and all(
        line.surroundings.get(name) == record.surroundings.get(name) for name in PASSING
    )


def check_accepted_time(baseline: Baseline, update_dates: Sequence[str]) -> None:
    """Raise DisagreementError for an accepted time that is not the level of the sessions then.

    Args:
        baseline: The baseline, whose accepted time has a date.
        update_dates: The dates of all updates of its file. After a second update on that date the
            sessions that were accepted first may be gone, and nothing can be checked.

    """
    records, date = baseline.records, baseline.pinned_date or ""
    # A file keeps only its newest updates. A file without updates was not written by busbw.
    if date and 0 < len(update_dates) < MOST_UPDATES and date not in update_dates:
        raise DisagreementError(
            f"{_name(baseline.case)}: pinned_date is {date}, a day without an update: {_REMEDY}"
        )
    # Older sessions, of which the level was made, may have been dropped.
    if date < records[0].date or len(records) == MOST_SESSIONS or update_dates.count(date) != 1:
        return
    levels = (
        replace(baseline, records=records[: index + 1]).level_us or 0.0
        for index, record in enumerate(records)
        if record.date == date
    )
    # Both have six digits.
    pinned_us = baseline.pinned_us or 0.0
    if not any(math.isclose(level, pinned_us, rel_tol=1e-5) for level in levels):
        raise DisagreementError(
            f"{_name(baseline.case)}: pinned_us is {pinned_us:g} on {date}, expected the level of "
            f"the sessions up to that date: {_REMEDY}"
        )


def _name(case: Case) -> str:
    return f"{case.dtype} {payload_text(case.payload_bytes)}"


def _times_text(record: Record) -> str:
    times = ", ".join(f"{time_us:g} us" for time_us in record.times_us)
    return times or "no time"

"""Checks that the stored sessions of a baseline agree with the clock and with the history.

The times of an accepted session are written to the baseline and to the history. If they differ, a
file was changed later, and it is unknown which times are true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from busbw.model.case import Case
from busbw.model.field_types import moment_text
from busbw.model.stored import MOST_SESSIONS, MOST_UPDATES, VARYING_SETTINGS, Baseline, Record
from busbw.model.words import payload_text

from .lines import Line

_REMEDY = "a file was changed since; restore it, or remove the entry and accept new times"


class DisagreementError(ValueError):
    """A stored date or time that contradicts the clock or another file."""


# Clocks of two machines may differ, and a machine may have the wrong time zone.
_CLOCKS_DIFFER = timedelta(days=1)


def check_date(change: str, date: str, present: datetime) -> None:
    """Raise DisagreementError if `date` is more than a day after `present`.

    `change` is the noun in the message that has this date, such as ``the update``.
    """
    if date > str((present + _CLOCKS_DIFFER).date()):
        raise DisagreementError(
            f"{change} of {date} is in the future, since the clock of this machine says "
            f"{moment_text(present)}: set the clock, or correct the date"
        )


def check_moment(case: Case, record: Record, present: datetime) -> None:
    """Raise DisagreementError if the session of `record` began more than a day after `present`."""
    if record.began > present + _CLOCKS_DIFFER:
        raise DisagreementError(
            f"{_case_text(case)}: the session of {record.moment} is in the future, since the clock "
            f"of this machine says {moment_text(present)}: set the clock, or remove the entry"
        )


def check_stored_times(baseline: Baseline, lines: Sequence[Line]) -> None:
    """Raise DisagreementError if times of a session differ in `baseline` and in the history.

    `lines` are lines of the history. Sessions that it does not have are not checked.
    """
    of_case = [line for line in lines if line.case == baseline.case and not line.is_reference]
    for record in baseline.records:
        same = [line for line in of_case if _is_of_same_session(line, record)]
        if same and all(line.times_us != record.times_us for line in same):
            raise DisagreementError(
                f"{_case_text(baseline.case)}: the session of {record.moment} has "
                f"{_times_text(record)} here, {_times_text(same[0])} in the history: {_REMEDY}"
            )


def _is_of_same_session(line: Line, record: Record) -> bool:
    """Return whether a line of the history is of the session of `record`.

    The moments are not enough: machines that share baselines may all begin at the same scheduled
    second. So the load and the clock frequency must be equal, too.
    """
    return line.moment == record.moment and all(
        line.surroundings.get(name) == record.surroundings.get(name) for name in VARYING_SETTINGS
    )


def check_pinned_time(baseline: Baseline, update_dates: Sequence[str]) -> None:
    """Raise DisagreementError if the pinned time is not the level of the sessions up to its date.

    It must also have the date of an update.

    Args:
        baseline: The baseline, whose pinned time has a date.
        update_dates: The dates of all updates of its file. If there are several updates on the date
            of the pinned time, some sessions may be gone, and the level is not checked.

    """
    records, date = baseline.records, baseline.pinned_date or ""
    # A full change log lacks the oldest updates. A file without updates was not written by busbw.
    if date and 0 < len(update_dates) < MOST_UPDATES and date not in update_dates:
        raise DisagreementError(
            f"{_case_text(baseline.case)}: pinned_date is {date}, a day without an update: "
            f"{_REMEDY}"
        )
    # The level then may have been computed from older sessions, which are no longer stored.
    if date < records[0].date or len(records) == MOST_SESSIONS or update_dates.count(date) != 1:
        return
    levels = (
        replace(baseline, records=records[: index + 1]).level_us or 0.0
        for index, record in enumerate(records)
        if record.date == date
    )
    # Both times are rounded to six digits.
    pinned_us = baseline.pinned_us or 0.0
    if not any(math.isclose(level, pinned_us, rel_tol=1e-5) for level in levels):
        raise DisagreementError(
            f"{_case_text(baseline.case)}: pinned_us is {pinned_us:g} on {date}, expected the "
            f"level of the sessions up to that date: {_REMEDY}"
        )


def _case_text(case: Case) -> str:
    """Return the name of a case within its file, such as ``float32 1M``."""
    return f"{case.dtype} {payload_text(case.payload_bytes)}"


def _times_text(record: Record) -> str:
    times = ", ".join(f"{time_us:g} us" for time_us in record.times_us)
    return times or "no time"

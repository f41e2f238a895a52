"""Whether baselines and the history agree on the sessions that both of them have.

An accepted session is written to both, with the same times. If the files differ, one of them was
changed since, and it is unknown which times are true.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import replace

from busbw.model.case import Case
from busbw.model.limits import moment_text
from busbw.model.stored import MOST_SESSIONS, Baseline, Record
from busbw.model.words import payload_text

from .lines import Line


class DisagreementError(ValueError):
    """A baseline that the history contradicts; the message says which session and how."""


def check(baseline: Baseline, lines: Iterable[Line]) -> None:
    """Raise DisagreementError if `baseline` contradicts a line of `lines`, or its sessions."""
    case, name = baseline.case, _name(baseline.case)
    of_case = [line for line in lines if line.case == case and not line.is_reference]
    for record in baseline.records:
        same = [line for line in of_case if line.moment == record.moment]
        if same and all(line.times_us != record.times_us for line in same):
            raise DisagreementError(
                f"{name}: the session of {record.moment} has {_times_text(record)} here, "
                f"{_times_text(same[0])} in the history: one of the two files was changed since; "
                "restore it, or remove the entry and accept new times"
            )
    if not _is_level_of_its_date(baseline):
        raise DisagreementError(
            f"{name}: pinned_us is {baseline.pinned_us:g} on {baseline.pinned_date}, but that is "
            "not the level of the sessions up to that date: the file was changed since; restore "
            "it, or remove the entry and accept new times"
        )


def check_date(case: Case, record: Record, present: datetime.datetime) -> None:
    """Raise DisagreementError for a `record` that began more than a day after `present`."""
    # Clocks of two machines may differ by an hour or by their idea of the time zone.
    if record.began > present + datetime.timedelta(days=1):
        raise DisagreementError(
            f"{_name(case)}: the session of {record.moment} is in the future, since the clock of "
            f"this machine says {moment_text(present)}: set the clock, or remove the entry"
        )


def _is_level_of_its_date(baseline: Baseline) -> bool:
    """Return whether the pinned level is that of the sessions up to its date, if all are kept."""
    records, date = baseline.records, baseline.pinned_date
    if date is None or baseline.pinned_us is None or date < records[0].date:
        return True
    if len(records) == MOST_SESSIONS:
        # Older sessions, of which the level was made, may have been dropped.
        return True
    levels = (
        replace(baseline, records=records[: index + 1]).level_us
        for index, record in enumerate(records)
        if record.date == date
    )
    # Both are rounded to six digits.
    return any(level and math.isclose(level, baseline.pinned_us, rel_tol=1e-5) for level in levels)


def _name(case: Case) -> str:
    return f"{case.dtype} {payload_text(case.payload_bytes)}"


def _times_text(record: Record) -> str:
    if not record.times_us:
        return "no time"
    return f"{', '.join(f'{time_us:g}' for time_us in record.times_us)} us"

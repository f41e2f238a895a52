"""Whether baselines and the history agree on the sessions that both of them have.

A session that is accepted is written to both, with the same times. Where they differ, one of the
files was changed since, and nobody can tell which times are true.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence

from busbw.model.stored import Baseline, Record, rounded_us
from busbw.model.words import payload_text

from .lines import Line

# Clocks of hosts differ, by whole time zones where one is set wrongly.
AHEAD = datetime.timedelta(days=1)

# Of a time that is rounded to six digits.
_ROUNDING = 1e-5


class DisagreementError(ValueError):
    """A baseline that the history, or the baseline itself, contradicts; says which and how."""


def check(baseline: Baseline, lines: Iterable[Line], budget: float) -> None:
    """Raise DisagreementError if `baseline` contradicts one of `lines`, or itself.

    The accepted time of a baseline differs from the level of its sessions by no more than `budget`,
    a fraction: beyond that an update sets it anew.
    """
    own = [one for one in lines if one.case == baseline.case and not one.is_reference]
    for record in baseline.records:
        known = [one for one in own if one.at == record.at]
        if known and all(one.times_us != record.times_us for one in known):
            raise DisagreementError(
                f"{_name(baseline)}: the session of {record.at} has {_times_text(record)} here, "
                f"{_times_text(known[0])} in the history: one of the two files was changed since; "
                "restore it, or remove the entry and accept new times"
            )
    _check_accepted(baseline, budget)


def _check_accepted(baseline: Baseline, budget: float) -> None:
    level, accepted = baseline.level_us, baseline.pinned_us
    if level is None or accepted is None:
        return
    most = (1 + budget) * (1 + _ROUNDING)
    if not accepted / most <= level <= accepted * most:
        raise DisagreementError(
            f"{_name(baseline)}: pinned_us: expected at most {100 * budget:g} % from "
            f"{rounded_us(level):g} us, the level of its sessions, got {accepted:g} us: one of "
            "them was changed since; restore the file, or remove the entry and accept new times"
        )


def _times_text(record: Record) -> str:
    if not record.times_us:
        return "no time"
    return f"{', '.join(f'{time_us:g}' for time_us in record.times_us)} us"


def _name(baseline: Baseline) -> str:
    case = baseline.case
    return f"{case.dtype} {payload_text(case.payload_bytes)}"


def notes(
    baselines: Iterable[Baseline], lines: Sequence[Line], now: datetime.datetime
) -> Iterator[str]:
    """Say which sessions are later than `now`, and which the history lacks though it was kept.

    All may be right: a clock may be wrong, and a session may have been accepted elsewhere.
    """
    accepted = {record.at: record.began for one in baselines for record in one.records}
    kept = {line.at: line.began for line in lines}
    for name, sessions in (("baselines", accepted), ("history", kept)):
        ahead = [at for at, began in sessions.items() if began > now + AHEAD]
        if ahead:
            yield (
                f"{name}: a session of {max(ahead)}, which is later than now: a clock was or is "
                "wrong, or the file was changed"
            )
    if kept:
        lacking = sorted(at for at in accepted if min(kept) < at < max(kept) and at not in kept)
        if lacking:
            yield f"baselines: sessions of {', '.join(lacking)}, which the history does not have"

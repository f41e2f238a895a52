"""The values that fields accept; invalid values are refused with their place."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from busbw import wire
from busbw.model.case import Case
from busbw.model.field_types import Date, Moment, Seconds, moment_text, parse_moment
from busbw.model.machine import EnvironmentKey
from tests.helpers import build


def _read(kind: Any, value: Any) -> Any:
    return wire.from_json(kind, wire.to_json(value), "it")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"payload_bytes": 0}, "payload_bytes: expected 1 to "),
        ({"payload_bytes": 10**16}, "payload_bytes: expected 1 to "),
        ({"ranks": 0}, "ranks: expected 1 to 1000000, got 0"),
        ({"ranks": 10**12}, "ranks: expected 1 to 1000000"),
        ({"mesh": "2x"}, "mesh: '2x' is not a mesh"),
        ({"mesh": "1" * 4000}, f"mesh: {'1' * 60!r} is not a mesh; expected up to 6 whole"),
        ({"mesh": "2x2", "axes": "z"}, "axes: expected some of x, y, got 'z'"),
        ({"mesh": "2x2", "axes": "xx"}, "axes: expected some of x, y, got 'xx'"),
        ({"mesh": "2x4", "axes": "x"}, "mesh: 2x4 is not of 4 ranks"),
        ({"axes": "x"}, "axes: expected none without a mesh"),
    ],
)
def test_json_of_a_case_that_cannot_be_measured_is_refused_with_the_invalid_field(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(wire.WireError) as refused:
        _read(Case, build.case(**changes))
    assert f"it.{says}" in str(refused.value)


def test_json_of_a_case_that_can_be_measured_is_read() -> None:
    assert _read(Case, build.case())
    assert _read(Case, build.case(mesh="2x2", axes="xy", ranks=4))
    # A mesh of chips with two cores each.
    assert _read(Case, build.case(mesh="2x2", ranks=8))


@pytest.mark.parametrize("name", ["ranks", "hosts", "processes", "cores"])
def test_a_machine_with_fewer_than_1_rank_or_host_or_process_or_core_is_refused(name: str) -> None:
    with pytest.raises(wire.WireError, match=rf"^it\.{name}: expected 1 to 1000000, got -4"):
        _read(EnvironmentKey, build.key(**{name: -4}))
    assert _read(EnvironmentKey, build.key(cores=None, mesh="4x4"))


@pytest.mark.parametrize("seconds", [0.0, -0.0, -1.0, 1e-13, 2e6])
def test_a_time_below_a_picosecond_or_above_a_million_seconds_is_refused(seconds: float) -> None:
    with pytest.raises(wire.WireError, match=r"^it: expected 1e-12 to 1e\+06 seconds"):
        _read(Seconds, seconds)


_UNUSUAL_DAYS = (
    *("2026-1-31", "26-01-31", "\uff12026-01-31"),
    *("2026-\uff11-31", "\u0662\u0660\u0662\u0666-01-31"),
)
_DATE, _MOMENT = "a date such as 2026-01-31", "a moment such as 2026-01-31T03"


@pytest.mark.parametrize(
    ("kind", "expected", "text"),
    [
        *((Date, _DATE, text) for text in ("2026-02-30", "2026-1", "20260101", "1" * 5000)),
        *((Moment, _MOMENT, text) for text in ("2026-01-31", "2026-02-30T03:00:00Z", "1" * 999)),
        *((Moment, _MOMENT, text) for text in ("", "yesterday", "2026-01-31T03:00:00+01:00")),
        *((Date, _DATE, text) for text in ("", "yesterday")),
        # Of other scripts, or with a digit less: Python reads them all as the same day.
        *((Date, _DATE, text) for text in _UNUSUAL_DAYS),
        *((Moment, _MOMENT, f"{text}T03:00:00Z") for text in _UNUSUAL_DAYS),
    ],
)
def test_a_text_that_is_no_date_or_no_moment_in_utc_is_refused_where_json_expects_it(
    kind: object, expected: str, text: str
) -> None:
    with pytest.raises(wire.WireError, match=rf"^it: expected {expected}"):
        _read(kind, text)
    assert _read(kind, "2026-01-31" if kind is Date else "2026-01-31T03:00:00Z")


def test_the_text_of_a_moment_in_another_time_zone_is_in_utc() -> None:
    moment = datetime(2026, 2, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert moment_text(moment) == "2026-01-31T23:30:00Z"
    assert parse_moment(moment_text(moment)) == moment
    assert parse_moment(moment_text(moment)).utcoffset() == timedelta(0)

"""Cases as files store them, the limits of what is read, earlier sessions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from busbw.model.stored import (
    EarlierSession,
    check_case,
    check_date,
    check_key,
    check_moment,
    check_seconds,
    merged,
    moment_of,
    moment_text,
)
from busbw.model.words import KIB
from tests import build


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"payload_bytes": 0}, "payload_bytes: expected 1 to "),
        ({"payload_bytes": 10**16}, "payload_bytes: expected 1 to "),
        ({"ranks": 0}, "ranks: expected 1 to 1000000, got 0"),
        ({"ranks": 10**12}, "ranks: expected 1 to 1000000"),
        ({"mesh": "2x"}, "mesh: '2x' is not a mesh"),
        ({"mesh": "1" * 5000}, "mesh: expected one such as 2x4"),
        ({"mesh": "2x2", "axes": "z"}, "axes: expected some of x, y, got 'z'"),
        ({"mesh": "2x2", "axes": "xx"}, "axes: expected some of x, y, got 'xx'"),
        ({"mesh": "2x4", "axes": "x"}, "mesh: 2x4 is not of 4 ranks"),
        ({"axes": "x"}, "axes: expected none without a mesh"),
    ],
)
def test_a_case_that_cannot_be_measured(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as refused:
        check_case(build.case(**changes))
    assert says in str(refused.value)


def test_a_case_that_can_be_measured() -> None:
    check_case(build.case())
    check_case(build.case(mesh="2x2", axes="xy", ranks=4))
    # A mesh of chips with two cores each.
    check_case(build.case(mesh="2x2", ranks=8))


@pytest.mark.parametrize("name", ["ranks", "hosts", "processes", "cores"])
def test_a_key_counts_from_1(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected 1 to 1000000, got -4"):
        check_key(build.key(**{name: -4}))
    check_key(build.key(cores=None, mesh="4x4"))


@pytest.mark.parametrize("seconds", [0.0, -0.0, -1.0, 1e-13, 2e6, float("inf"), float("nan")])
def test_a_time_that_nothing_takes(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"^times_s: expected 1e-12 to 1e\+06 seconds"):
        check_seconds("times_s", seconds)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30", "2026-1", "20260101", "1" * 5000])
def test_a_date_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^date: expected a date such as 2026-01-31"):
        check_date("date", text)
    check_date("date", "2026-01-31")


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-01-31", "2026-02-30T03:00:00Z", "2026-01-31T03:00:00+01:00", "1" * 999],
)
def test_a_moment_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^at: expected a moment such as 2026-01-31T03:00:00Z"):
        check_moment("at", text)
    check_moment("at", "2026-01-31T03:00:00Z")


def test_moments_are_in_utc_whatever_they_were_told_in() -> None:
    moment = datetime(2026, 2, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert moment_text(moment) == "2026-01-31T23:30:00Z"
    assert moment_of(moment_text(moment)) == moment
    assert moment_of(moment_text(moment)).utcoffset() == timedelta(0)


def test_a_session_began_at_its_moment() -> None:
    moment = build.session(1e-3, date="2026-01-31", at="2026-01-30T23:59:58Z")
    assert moment.began == datetime(2026, 1, 30, 23, 59, 58, tzinfo=timezone.utc)


BEGAN = datetime(2026, 1, 31, 3, tzinfo=timezone.utc)
ONE, OTHER = build.case(), build.case(payload_bytes=8 * KIB)


def session(surroundings: Mapping[str, str], minutes: float = 0.0) -> EarlierSession:
    return EarlierSession(
        began=BEGAN + timedelta(minutes=minutes),
        times_s={ONE: (1e-3,), OTHER: (2e-3,)},
        surroundings=surroundings,
    )


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    return session(now).changes_since(session(before))


def test_what_changed_is_what_differs_or_is_gone_and_what_is_new_was_not_known() -> None:
    before = {"jax": "0.10.1", "XLA_FLAGS": "--x", "numpy": "2.0"}
    now = {"jax": "0.10.2", "numpy": "2.0", "libtpu": "0.0.42"}
    assert changes(before, now) == ("jax 0.10.1 -> 0.10.2", "XLA_FLAGS --x -> none")
    assert changes(before, before) == ()


def test_a_host_that_a_baseline_does_not_name_is_no_change() -> None:
    assert changes({"host": "vm-1", "jax": "1"}, {"jax": "1"}) == ()
    assert changes({"host": "vm-1"}, {"host": "vm-2"}) == ("host vm-1 -> vm-2",)


def test_sessions_within_the_hour_of_the_first_are_one_with_all_of_its_launches() -> None:
    found = merged([session({}, at) for at in (130, 0, 59, 61)], timedelta(hours=1))
    assert [one.began - BEGAN for one in found] == [timedelta(minutes=at) for at in (0, 61, 130)]
    assert found[0].times_s == {ONE: (1e-3, 1e-3), OTHER: (2e-3, 2e-3)}

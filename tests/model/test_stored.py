"""Records and earlier sessions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from busbw.model.stored import EarlierSession, merged
from busbw.model.words import KIB
from tests import build


def test_a_session_began_at_its_moment() -> None:
    moment = build.session(1e-3, at="2026-01-30T23:59:58Z")
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

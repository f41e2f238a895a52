"""Records and earlier sessions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from busbw.model.stored import StoredSession, merge_sessions
from busbw.model.words import KIB
from tests.helpers import build
from tests.unit.judge import simulated_sessions

BEGAN = simulated_sessions.FIRST
ONE, OTHER = build.case(), build.case(payload_bytes=8 * KIB)


def session(surroundings: Mapping[str, str], minutes: float = 0.0) -> StoredSession:
    return simulated_sessions.session(
        minutes / 24 / 60, {ONE: (1e-3,), OTHER: (2e-3,)}, surroundings=surroundings
    )


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    return session(now).setup_changes_since(session(before), "jax")


def test_versions_and_flags_that_changed_or_are_new_or_were_removed_are_listed_as_changes() -> None:
    before = {"jax": "0.10.1", "XLA_FLAGS": "--x", "numpy": "2.0"}
    now = {"jax": "0.10.2", "numpy": "2.0", "libtpu": "0.0.42"}
    gone, new = "XLA_FLAGS --x -> none", "libtpu none -> 0.0.42"
    assert changes(before, now) == ("jax 0.10.1 -> 0.10.2", new, gone)
    assert changes(now, before) == (
        *("jax 0.10.2 -> 0.10.1", "XLA_FLAGS none -> --x", "libtpu 0.0.42 -> none"),
    )
    assert changes(before, before) == ()


def test_no_changes_are_found_between_a_session_with_unknown_versions_and_a_later_session() -> None:
    assert changes({}, {"jax": "0.10.2"}) == ()


def test_a_host_name_that_only_one_of_two_sessions_has_does_not_count_as_a_change() -> None:
    assert changes({"host": "vm-1", "jax": "1"}, {"jax": "1"}) == ()
    assert changes({"jax": "1"}, {"host": "vm-1", "jax": "1"}) == ()
    assert changes({"host": "vm-1"}, {"host": "vm-2"}) == ("host vm-1 -> vm-2",)


def test_stored_sessions_within_an_hour_of_the_first_session_are_merged() -> None:
    merged = merge_sessions(
        [session({}, minute) for minute in (130, 0, 59, 61)], timedelta(hours=1)
    )
    assert [record.began - BEGAN for record in merged] == [
        timedelta(minutes=minute) for minute in (0, 61, 130)
    ]
    assert merged[0].times_s == {ONE: (1e-3, 1e-3), OTHER: (2e-3, 2e-3)}


def test_the_changes_between_two_sessions_include_only_changes_of_the_requested_framework() -> None:
    """Versions of another framework do not explain a change of this framework."""
    other = build.case(framework="tensorflow")
    before, now = (
        StoredSession.from_records(
            {
                other: build.session(1e-3, versions={"tensorflow": version}),
                ONE: build.session(1e-3, versions={"jax": "1"}),
            }
        )
        for version in ("2", "3")
    )
    assert now.setup_changes_since(before, "tensorflow") == ("tensorflow 2 -> 3",)
    assert now.setup_changes_since(before, "jax") == ()
    assert (
        now.setup_changes_since(
            StoredSession.from_records({ONE: build.session(1e-3)}), "tensorflow"
        )
        == ()
    )

"""Lines over time: levels, spreads, how sessions ended, how old baselines are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.history import Line, machine_history
from busbw.model import Outcome, SessionOutcome, StoredCase
from tests import build

from .lines import line

TIMES_US = (10.0, 10.2, 9.8, 10.0, 30.0)


def _nights(**changes: object) -> list[Line]:
    """One case, a session a night; the last is three times as slow."""
    return [
        replace(
            line(session=f"{night:016x}", at=f"2026-01-{10 + night}T03:00:00Z", **changes),
            times_us=(time_us, time_us, 5 * time_us),
        )
        for night, time_us in enumerate(TIMES_US)
    ]


def test_a_session_counts_by_its_median_launch_and_the_level_is_their_median() -> None:
    (case,) = machine_history("tpu/4r", _nights()).cases
    assert list(case.times_s.values()) == pytest.approx([1e-6 * one for one in TIMES_US])
    assert case.level_s == pytest.approx(10e-6)
    assert case.newest_s == pytest.approx(30e-6)
    assert case.spread == pytest.approx(1.4826 * 0.02)


def test_two_sessions_have_no_spread_and_none_has_no_level() -> None:
    (case,) = machine_history("tpu/4r", _nights()[:2]).cases
    assert case.spread is None
    assert case.level_s == pytest.approx(10.1e-6)
    lost = line(times_us=(), anchors_us=(), outcome=Outcome.OUT_OF_MEMORY)
    (case,) = machine_history("tpu/4r", [lost]).cases
    assert (case.level_s, case.newest_s, case.spread) == (None, None, None)
    assert case.outcomes == {Outcome.OUT_OF_MEMORY: 1}


def test_what_was_made_slower_on_purpose_is_in_no_level() -> None:
    injected = line(session="f" * 16, injected="delay:200%")
    found = machine_history("tpu/4r", [*_nights()[:3], injected])
    assert [len(one.times_s) for one in found.cases] == [3]
    assert len(found.sessions) == 4


def test_another_protocol_is_another_case() -> None:
    other = replace(build.case(), protocol=replace(build.case().protocol, allocator="malloc"))
    found = machine_history("tpu/4r", [line(), line(case=StoredCase.of(other))])
    assert len(found.cases) == 2


def test_sessions_are_counted_by_their_verdict_once_and_baselines_by_their_age() -> None:
    lines = _nights()
    lines += [
        replace(one, case=StoredCase.of(build.case(payload_bytes=1 << 20)), baseline_date="")
        for one in lines
    ]
    lines[-1:] = [replace(lines[-1], session="f" * 16, session_outcome=SessionOutcome.NO_VERDICT)]
    found = machine_history("tpu/4r", lines)
    assert found.outcomes == {"FINE": 5, "NO_VERDICT": 1}
    assert found.baseline_age_days == 12
    bare = [replace(one, baseline_date="") for one in lines]
    assert machine_history("tpu/4r", bare).baseline_age_days is None

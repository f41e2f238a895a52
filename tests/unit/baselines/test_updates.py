"""Updates of baseline files: joined sessions, refused losses, accepted times, and pruning."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines import store
from busbw.baselines.document import BaselineError
from busbw.baselines.store import find_baseline
from busbw.baselines.updates import (
    merge_into_baseline,
    pin_stored_time,
    prune_baselines,
)
from busbw.baselines.updates import put_accepted_baselines as baselines_save
from busbw.model.stored import MAX_BASELINE_SESSIONS, MAX_KEPT_UPDATES, Baseline, Record
from tests.helpers import build
from tests.unit.baselines.written import written

BUDGET = 0.10


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the path of the baselines folder, which does not exist yet."""
    return tmp_path / "baselines"


def save(root: Path, *times_s: float, **accepted: Any) -> None:
    """Save these times of the default case; without any time the case was out of memory."""
    measured = build.measurement(*times_s, failures=() if times_s else (build.out_of_memory(),))
    session = Record(moment="2026-03-04T03:00:00Z", commit="abc")
    accepted_case = build.accepted(measured, session, **accepted)
    reason = "a slower switch"
    written(baselines_save, root, [accepted_case], session=session, budget=BUDGET, reason=reason)


def history(root: Path) -> list[dict[str, Any]]:
    (path,) = root.rglob("*.json")
    updates: list[dict[str, Any]] = json.loads(path.read_text())["history"]
    return updates


def test_a_session_that_is_appended_to_a_baseline_is_pooled_with_the_stored_sessions(
    root: Path,
) -> None:
    save(root, 1e-3, 1.02e-3)
    save(root, 1.04e-3, is_appended=True)
    baseline: Any = find_baseline(root, build.key(), build.case()).baseline
    assert baseline.times_s == (1e-3, 1.02e-3, 1.04e-3)
    assert [len(session.times_s) for session in baseline.sessions] == [2, 1]
    assert baseline.sessions[1].commit == "abc"
    assert baseline.level_s == pytest.approx(1.025e-3)


def test_an_update_that_refuses_one_case_saves_all_other_cases(root: Path) -> None:
    save(root, 1e-3)
    session = Record(moment="2026-03-05T03:00:00Z")
    measured = [build.measurement(2e-3, payload_bytes=size) for size in (4096, 8192)]
    accepted = [build.accepted(measurement, session) for measurement in measured]
    changes, refusals = written(baselines_save, root, accepted, session=session, budget=BUDGET)
    assert [change.case.payload_bytes for change in changes] == [8192]
    assert [refusal.partition(": ")[0] for refusal in refusals] == [
        "jax.all_reduce.psum.float32.4K"
    ]
    assert history(root)[-1]["entries"] == 1


def test_a_baseline_file_keeps_the_newest_fifty_updates(root: Path) -> None:
    save(root, 1e-3)
    for _ in range(MAX_KEPT_UPDATES):
        save(root, 1.5e-3)
    assert ["accepted_regression" in update for update in history(root)] == [True] + [False] * 49
    save(root, 1.5e-3)
    assert not any("accepted_regression" in update for update in history(root))


def test_pruning_baselines_next_to_an_invalid_file_is_an_error_and_changes_no_file(
    root: Path,
) -> None:
    session = Record(moment="2026-03-04T03:00:00Z")
    cases: tuple[dict[str, Any], ...] = ({}, {"payload_bytes": 8192}, {"strategy": "ring"})
    accepted = [build.accepted(build.measurement(1e-3, **case)) for case in cases]
    written(baselines_save, root, accepted, session=session, budget=BUDGET)
    good = store.baseline_path(root, build.key(), build.case())
    store.baseline_path(root, build.key(), build.case(strategy="ring")).write_text("{}")
    before = good.read_bytes()
    pruned = [build.case(payload_bytes=64), build.case(strategy="ring")]
    with pytest.raises(BaselineError, match="ring"):
        written(
            prune_baselines,
            root,
            [(build.key(), case) for case in pruned],
            session=session,
            reason="a new machine",
        )
    assert good.read_bytes() == before


def session(*times_us: float, date: str = build.DATE, protocol: str = "host/chain2") -> Baseline:
    """Return a baseline of one session without an accepted time."""
    times_s = tuple(time_us / 1e6 for time_us in times_us)
    measured = build.measurement(*times_s, protocol=protocol)
    return build.accepted(measured, Record(moment=f"{date}T03:00:00Z")).baseline


def stored(*times_us: float) -> Baseline:
    """Return a baseline of one session whose accepted time is its level."""
    return pin_stored_time(session(*times_us))


def test_a_stored_session_keeps_the_time_at_which_the_session_began() -> None:
    accepted = build.accepted(build.measurement(1e-3), Record(moment="2026-01-02T03:04:05Z"))
    (stored_session,) = accepted.baseline.sessions
    assert stored_session.began == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_session_that_is_not_appended_replaces_all_sessions_of_a_baseline() -> None:
    old = merge_into_baseline(stored(1000), session(1020), is_appended=True, budget=BUDGET)[0]
    merged, _ = merge_into_baseline(old, session(1050), is_appended=False, budget=BUDGET)
    assert [session.times_us for session in merged.sessions] == [(1050,)]
    assert merged.pinned_us == 1000


def test_an_appended_session_has_the_same_weight_with_any_number_of_launches() -> None:
    old = merge_into_baseline(
        stored(1000), session(1100, 1100, 1100, 1100), is_appended=True, budget=BUDGET
    )[0]
    assert old.level_us == 1050


def test_a_baseline_with_the_maximum_number_of_sessions_drops_its_oldest_session() -> None:
    entry = stored(1000)
    for turn in range(MAX_BASELINE_SESSIONS):
        entry = merge_into_baseline(entry, session(1001 + turn), is_appended=True, budget=BUDGET)[0]
    assert len(entry.sessions) == MAX_BASELINE_SESSIONS
    assert entry.sessions[0].times_us == (1001,)


def test_a_session_is_a_loss_only_if_it_exceeds_the_pinned_time_by_more_than_the_budget() -> None:
    for time_us, lost in ((1100, False), (1101, True)):
        assert (
            merge_into_baseline(stored(1000), session(time_us), is_appended=False, budget=BUDGET)[1]
            is lost
        )


def test_a_session_that_is_slightly_faster_does_not_change_the_pinned_time_of_a_baseline() -> None:
    merged, _ = merge_into_baseline(stored(1000), session(950), is_appended=False, budget=BUDGET)
    assert merged.pinned_us == 1000


def test_a_session_faster_by_more_than_the_budget_becomes_the_pinned_time_of_a_baseline() -> None:
    merged, lost = merge_into_baseline(
        stored(1000), session(500, date="2026-03-05"), is_appended=False, budget=BUDGET
    )
    assert (lost, merged.pinned_us) == (False, 500)
    assert merged.pinned_date == "2026-03-05"
    assert merge_into_baseline(merged, session(900), is_appended=False, budget=BUDGET)[1]


def test_a_session_of_another_protocol_replaces_all_times_of_a_baseline() -> None:
    new = session(5000, protocol="device/chain9")
    merged, lost = merge_into_baseline(stored(1000), new, is_appended=True, budget=BUDGET)
    assert (lost, merged.pinned_us) == (False, 5000)
    assert len(merged.sessions) == 1


def test_a_case_that_fits_in_memory_again_gets_its_new_time_as_the_pinned_time() -> None:
    merged, lost = merge_into_baseline(
        build.baseline(), session(1000), is_appended=False, budget=BUDGET
    )
    assert (lost, merged.is_out_of_memory, merged.pinned_us) == (False, False, 1000)

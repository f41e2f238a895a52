"""Updates of files: what joins, what is refused with its reason, and the files' own history."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines import files
from busbw.baselines.document import BaselineError, Status
from busbw.baselines.store import find
from busbw.baselines.timed import (
    MOST_SESSIONS,
    Accepted,
    Entry,
    Occasion,
    baseline_of,
    entry_of,
    joined,
    level_us,
    pinned_at_level,
)
from busbw.baselines.updates import MOST_UPDATES, Rules, Saved, prune, rebase
from busbw.baselines.updates import save as baselines_save
from busbw.model.stored import Baseline
from tests import build

from .written import written

RULES = Rules(budget=0.10)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The baselines folder, not there yet."""
    return tmp_path / "baselines"


def save(root: Path, *times_s: float, rules: Rules = RULES, **accepted: Any) -> Saved:
    """Save these times of the ordinary case; without any it was out of memory."""
    failures = () if times_s else (build.out_of_memory(),)
    measured = build.measurement(*times_s, failures=failures)
    one = Accepted(key=build.key(), measurement=measured, times_s=times_s, **accepted)
    occasion = Occasion(at="2026-03-04T03:00:00Z", commit="abc", reason="a slower switch")
    return written(baselines_save, root, [one], occasion=occasion, rules=rules)


def found(root: Path) -> Baseline:
    baseline = find(root, build.key(), build.case()).baseline
    assert baseline is not None
    return baseline


def history(root: Path) -> list[dict[str, Any]]:
    (path,) = root.rglob("*.json")
    updates: list[dict[str, Any]] = json.loads(path.read_text())["history"]
    return updates


def test_an_appended_session_is_pooled_with_those_that_are_stored(root: Path) -> None:
    save(root, 1e-3, 1.02e-3)
    save(root, 1.04e-3, append=True)
    baseline = found(root)
    assert baseline.times_s == (1e-3, 1.02e-3, 1.04e-3)
    assert [len(session.times_s) for session in baseline.sessions] == [2, 1]
    assert baseline.sessions[1].commit == "abc"
    assert baseline.level_s == pytest.approx(1.025e-3)


def test_a_loss_beyond_the_budget_is_refused_and_says_all_that_one_needs(root: Path) -> None:
    save(root, 1e-3)
    (path,) = root.rglob("*.json")
    before = path.read_bytes()
    saved = save(root, 1.5e-3)
    assert saved.changes == ()
    (refusal,) = saved.refusals
    assert refusal.text == (
        "jax.all_reduce.psum.float32.4K: the baseline was not written: its level would be "
        "1.5 ms, 50.0 % above the 1 ms pinned on 2026-03-04; the budget is 10 %"
    )
    assert path.read_bytes() == before


def test_an_accepted_loss_is_written_pinned_and_recorded_with_its_reason(root: Path) -> None:
    save(root, 1e-3)
    saved = save(root, 1.5e-3, takes_loss=True)
    assert (len(saved.changes), saved.refusals) == (1, ())
    assert found(root).pinned_s == 1.5e-3
    assert history(root)[-1] == {
        "date": "2026-03-04",
        "commit": "abc",
        "entries": 1,
        "worst_percent": 50.0,
        "reason": "a slower switch",
        "accepted_regression": True,
    }


def test_a_loss_within_the_budget_is_no_accepted_regression(root: Path) -> None:
    save(root, 1e-3)
    save(root, 1.05e-3, takes_loss=True)
    assert found(root).pinned_s == 1e-3
    assert "accepted_regression" not in history(root)[-1]


def test_out_of_memory_where_a_time_stands_is_refused_and_can_be_accepted(root: Path) -> None:
    save(root, 1e-3)
    (refusal,) = save(root).refusals
    assert "out of memory where there was a time, 1 ms pinned on 2026-03-04" in refusal.text
    assert save(root, takes_loss=True).changes
    assert found(root).oom


def test_one_refusal_keeps_no_other_case_from_being_written(root: Path) -> None:
    save(root, 1e-3)
    accepted = [
        Accepted(
            key=build.key(),
            measurement=build.measurement(2e-3, payload_bytes=size),
            times_s=(2e-3,),
        )
        for size in (4096, 8192)
    ]
    saved = written(
        baselines_save, root, accepted, occasion=Occasion(at="2026-03-05T03:00:00Z"), rules=RULES
    )
    assert [change.case.payload_bytes for change in saved.changes] == [8192]
    assert [refusal.case.payload_bytes for refusal in saved.refusals] == [4096]
    assert history(root)[-1]["entries"] == 1


def test_the_history_keeps_the_newest_updates(root: Path) -> None:
    save(root, 1e-3)
    save(root, 1.01e-3)
    for _ in range(MOST_UPDATES - 1):
        save(root, 1.01e-3)
    assert [update["worst_percent"] for update in history(root)] == [1.0] + [0.0] * 49
    save(root, 1.01e-3)
    assert [update["worst_percent"] for update in history(root)] == [0.0] * MOST_UPDATES


TODAY = Occasion(at="2026-03-04T03:00:00Z", reason="a new machine")
KEY = build.key()


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A folder with the payloads 4K and 8K of one strategy, and 4K of another."""
    folder = tmp_path / "baselines"
    for changes in ({}, {"payload_bytes": 8192}, {"strategy": "ring"}):
        put(folder, 1e-3, **changes)
    return folder


def put(filled: Path, time_s: float, **case: Any) -> None:
    measured = build.measurement(time_s, **case)
    one = Accepted(key=KEY, measurement=measured, times_s=(time_s,))
    occasion = Occasion(at="2026-01-01T03:00:00Z")
    saved = written(baselines_save, filled, [one], occasion=occasion, rules=Rules(budget=0.10))
    assert not saved.refusals


def baseline_at(filled: Path, **case: Any) -> Baseline | None:
    return find(filled, KEY, build.case(**case)).baseline


def at(filled: Path, **case: Any) -> Path:
    return files.path_of(filled, KEY, build.case(**case))


def updates_at(filled: Path) -> list[dict[str, Any]]:
    path = at(filled)
    updates: list[dict[str, Any]] = json.loads(path.read_text())["history"]
    return updates


def test_prune_removes_what_is_not_kept_and_says_what_went(filled: Path) -> None:
    (change,) = written(prune, filled, [(KEY, build.case())], occasion=TODAY)
    assert (change.case.payload_bytes, change.after) == (8192, None)
    assert change.before is not None and change.before.times_s == (1e-3,)
    assert baseline_at(filled, payload_bytes=8192) is None
    assert baseline_at(filled) is not None
    assert updates_at(filled)[-1]["reason"] == "a new machine"


def test_prune_leaves_files_that_no_kept_case_is_in(filled: Path) -> None:
    written(prune, filled, [(KEY, build.case())], occasion=TODAY)
    assert baseline_at(filled, strategy="ring") is not None


def test_prune_writes_nothing_where_nothing_goes(filled: Path) -> None:
    before = at(filled).read_bytes()
    kept = [(KEY, build.case(payload_bytes=size)) for size in (4096, 8192)]
    assert written(prune, filled, kept, occasion=TODAY) == ()
    assert at(filled).read_bytes() == before


def test_prune_removes_a_file_in_which_nothing_is_left(filled: Path) -> None:
    gone = written(prune, filled, [(KEY, build.case(payload_bytes=64))], occasion=TODAY)
    assert len(gone) == 2
    assert not at(filled).exists()


@pytest.mark.parametrize("act", [prune, rebase])
def test_a_bad_file_is_an_error_and_no_file_is_touched(filled: Path, act: Any) -> None:
    good = at(filled)
    bad = at(filled, strategy="ring")
    bad.write_text("{}")
    before = good.read_bytes()
    cases = [(KEY, build.case(payload_bytes=64)), (KEY, build.case(strategy="ring"))]
    with pytest.raises(BaselineError, match="ring"):
        written(act, filled, cases, occasion=TODAY)
    assert good.read_bytes() == before


@pytest.mark.parametrize("act", [prune, rebase])
def test_where_there_are_no_baselines_nothing_is_done(tmp_path: Path, act: Any) -> None:
    assert written(act, tmp_path / "nowhere", [(KEY, build.case())], occasion=TODAY) == ()
    assert not (tmp_path / "nowhere").exists()


def test_rebase_pins_the_cases_at_their_stored_levels(filled: Path) -> None:
    for size in (4096, 8192):
        put(filled, 1.05e-3, payload_bytes=size)
    (change,) = written(rebase, filled, [(KEY, build.case())], occasion=TODAY)
    assert change.before is not None and change.after is not None
    assert (change.before.pinned_s, change.after.pinned_s) == (1e-3, 1.05e-3)
    assert change.before.sessions == change.after.sessions
    baseline, other = baseline_at(filled), baseline_at(filled, payload_bytes=8192)
    assert baseline is not None and other is not None
    assert (baseline.pinned_s, baseline.pinned_date) == (1.05e-3, TODAY.date)
    assert other.pinned_s == 1e-3
    assert updates_at(filled)[-1] == {
        "date": TODAY.date,
        "entries": 1,
        "worst_percent": 0.0,
        "reason": "a new machine",
    }


def test_rebase_leaves_a_pin_that_is_at_its_level_and_another_protocol(filled: Path) -> None:
    assert written(rebase, filled, [(KEY, build.case())], occasion=TODAY) == ()
    put(filled, 1.05e-3)
    other = build.case(protocol="host/another")
    assert written(rebase, filled, [(KEY, other)], occasion=TODAY) == ()


BUDGET = 0.10


def session(*times_us: float, date: str = build.DATE, protocol: str = "host/chain2") -> Entry:
    """An entry of one session, without a pin."""
    times_s = tuple(time_us / 1e6 for time_us in times_us)
    measured = build.measurement(*times_s, protocol=protocol)
    one = Accepted(key=build.key(), measurement=measured, times_s=times_s)
    return entry_of(one, Occasion(at=f"{date}T03:00:00Z"))


def stored(*times_us: float) -> Entry:
    """An entry of one session, pinned at its level."""
    return pinned_at_level(session(*times_us))


def out_of_memory() -> Entry:
    measured = build.measurement(failures=(build.out_of_memory(),))
    one = Accepted(key=build.key(), measurement=measured, times_s=())
    return entry_of(one, Occasion(at=f"{build.DATE}T03:00:00Z"))


def test_a_session_keeps_when_it_began() -> None:
    measured = build.measurement(1e-3)
    one = Accepted(key=build.key(), measurement=measured, times_s=(1e-3,))
    entry = entry_of(one, Occasion(at="2026-01-02T03:04:05Z"))
    assert entry.sessions[0].at == "2026-01-02T03:04:05Z"
    (found,) = baseline_of(build.case(), entry).sessions
    assert found.began == datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def test_a_session_that_is_not_appended_takes_the_place_of_all() -> None:
    old = joined(stored(1000), session(1020), append=True, budget=BUDGET).entry
    step = joined(old, session(1050), append=False, budget=BUDGET)
    assert [found.times_us for found in step.entry.sessions] == [(1050,)]
    assert step.entry.pinned_us == 1000


def test_a_session_counts_once_whatever_its_launches() -> None:
    old = joined(stored(1000), session(1100, 1100, 1100, 1100), append=True, budget=BUDGET).entry
    assert level_us(old) == 1050


def test_the_oldest_session_goes_when_there_are_too_many() -> None:
    entry = stored(1000)
    for turn in range(MOST_SESSIONS):
        entry = joined(entry, session(1001 + turn), append=True, budget=BUDGET).entry
    assert len(entry.sessions) == MOST_SESSIONS
    assert entry.sessions[0].times_us == (1001,)


def test_a_level_at_the_end_of_the_budget_is_written_and_one_beyond_is_lost() -> None:
    for time_us, lost in ((1100, False), (1101, True)):
        assert joined(stored(1000), session(time_us), append=False, budget=BUDGET).lost is lost


def test_a_small_improvement_leaves_the_pin() -> None:
    step = joined(stored(1000), session(950), append=False, budget=BUDGET)
    assert step.entry.pinned_us == 1000


def test_an_improvement_beyond_the_budget_takes_the_pin_with_it_and_is_not_lost_unseen() -> None:
    step = joined(stored(1000), session(500, date="2026-03-05"), append=False, budget=BUDGET)
    assert (step.lost, step.entry.pinned_us) == (False, 500)
    assert step.entry.pinned_date == "2026-03-05"
    assert joined(step.entry, session(900), append=False, budget=BUDGET).lost


def test_another_protocol_takes_the_place_and_pins_its_own_level() -> None:
    new = session(5000, protocol="device/chain9")
    step = joined(stored(1000), new, append=True, budget=BUDGET)
    assert (step.lost, step.entry.pinned_us) == (False, 5000)
    assert len(step.entry.sessions) == 1


def test_out_of_memory_where_a_time_stands_is_a_loss_and_elsewhere_none() -> None:
    assert joined(stored(1000), out_of_memory(), append=False, budget=BUDGET).lost
    assert not joined(None, out_of_memory(), append=False, budget=BUDGET).lost
    assert not joined(out_of_memory(), out_of_memory(), append=False, budget=BUDGET).lost


def test_what_fits_again_pins_its_own_level() -> None:
    step = joined(out_of_memory(), session(1000), append=False, budget=BUDGET)
    assert (step.lost, step.entry.status, step.entry.pinned_us) == (False, Status.OK, 1000)


@pytest.mark.parametrize("append", [True, False])
def test_twenty_steps_of_two_percent_are_stopped_by_the_budget(append: bool) -> None:
    entry = first = stored(1000)
    refused = []
    for turn in range(1, 21):
        step = joined(entry, session(1000 * 1.02**turn), append=append, budget=BUDGET)
        refused += [turn] if step.lost else []
        entry = entry if step.lost else step.entry
    assert refused and refused[-1] == 20
    level = level_us(entry)
    assert level is not None and level <= 1100
    assert entry.pinned_us == first.pinned_us


def test_a_pin_is_moved_by_nothing_else_than_the_level() -> None:
    entry = replace(stored(1000), pinned_us=980.0)
    assert joined(entry, session(1000), append=True, budget=BUDGET).entry.pinned_us == 980

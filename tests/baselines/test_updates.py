"""Updates of files: what joins, what is refused with its reason, and the files' own history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines.store import find
from busbw.baselines.timed import Accepted, Occasion
from busbw.baselines.updates import MOST_UPDATES, Rules, Saved
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


def test_a_session_is_appended_to_what_another_one_wrote_meanwhile(root: Path) -> None:
    save(root, 1e-3)
    save(root, 1.01e-3, append=True)
    save(root, 1.02e-3, append=True)
    assert len(found(root).sessions) == 3


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


def test_twenty_updates_of_two_percent_end_at_the_budget(root: Path) -> None:
    save(root, 1e-3)
    refused = 0
    for turn in range(1, 21):
        refused += len(save(root, 1e-3 * 1.02**turn, append=True).refusals)
    level_s = found(root).level_s
    assert level_s is not None and level_s <= 1.1e-3
    assert refused >= 5
    assert found(root).pinned_s == 1e-3


def test_the_history_keeps_the_newest_updates(root: Path) -> None:
    save(root, 1e-3)
    save(root, 1.01e-3)
    for _ in range(MOST_UPDATES - 1):
        save(root, 1.01e-3)
    assert [update["worst_percent"] for update in history(root)] == [1.0] + [0.0] * 49
    save(root, 1.01e-3)
    assert [update["worst_percent"] for update in history(root)] == [0.0] * MOST_UPDATES

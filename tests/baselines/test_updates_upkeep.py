"""Prune and rebase: only when asked, only in the files of the cases named, each with its record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines import files
from busbw.baselines.document import BaselineError
from busbw.baselines.store import find
from busbw.baselines.timed import Accepted, Occasion
from busbw.baselines.updates import Rules, prune, rebase
from busbw.baselines.updates import save as baselines_save
from busbw.model.stored import Baseline
from tests import build

from .written import written

TODAY = Occasion(at="2026-03-04T03:00:00Z", reason="a new machine")
KEY = build.key()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the payloads 4K and 8K of one strategy, and 4K of another."""
    folder = tmp_path / "baselines"
    for changes in ({}, {"payload_bytes": 8192}, {"strategy": "ring"}):
        save(folder, 1e-3, **changes)
    return folder


def save(root: Path, time_s: float, **case: Any) -> None:
    measured = build.measurement(time_s, **case)
    one = Accepted(key=KEY, measurement=measured, times_s=(time_s,))
    occasion = Occasion(at="2026-01-01T03:00:00Z")
    saved = written(baselines_save, root, [one], occasion=occasion, rules=Rules(budget=0.10))
    assert not saved.refusals


def found(root: Path, **case: Any) -> Baseline | None:
    return find(root, KEY, build.case(**case)).baseline


def at(root: Path, **case: Any) -> Path:
    return files.path_of(root, KEY, build.case(**case))


def history(root: Path) -> list[dict[str, Any]]:
    path = at(root)
    updates: list[dict[str, Any]] = json.loads(path.read_text())["history"]
    return updates


def test_prune_removes_what_is_not_kept_and_says_what_went(root: Path) -> None:
    (change,) = written(prune, root, [(KEY, build.case())], occasion=TODAY)
    assert (change.case.payload_bytes, change.after) == (8192, None)
    assert change.before is not None and change.before.times_s == (1e-3,)
    assert found(root, payload_bytes=8192) is None
    assert found(root) is not None
    assert history(root)[-1]["reason"] == "a new machine"


def test_prune_leaves_files_that_no_kept_case_is_in(root: Path) -> None:
    written(prune, root, [(KEY, build.case())], occasion=TODAY)
    assert found(root, strategy="ring") is not None


def test_prune_writes_nothing_where_nothing_goes(root: Path) -> None:
    before = at(root).read_bytes()
    kept = [(KEY, build.case(payload_bytes=size)) for size in (4096, 8192)]
    assert written(prune, root, kept, occasion=TODAY) == ()
    assert at(root).read_bytes() == before


def test_prune_removes_a_file_in_which_nothing_is_left(root: Path) -> None:
    gone = written(prune, root, [(KEY, build.case(payload_bytes=64))], occasion=TODAY)
    assert len(gone) == 2
    assert not at(root).exists()


@pytest.mark.parametrize("act", [prune, rebase])
def test_a_bad_file_is_an_error_and_no_file_is_touched(root: Path, act: Any) -> None:
    good = at(root)
    bad = at(root, strategy="ring")
    bad.write_text("{}")
    before = good.read_bytes()
    cases = [(KEY, build.case(payload_bytes=64)), (KEY, build.case(strategy="ring"))]
    with pytest.raises(BaselineError, match="ring"):
        written(act, root, cases, occasion=TODAY)
    assert good.read_bytes() == before


@pytest.mark.parametrize("act", [prune, rebase])
def test_where_there_are_no_baselines_nothing_is_done(tmp_path: Path, act: Any) -> None:
    assert written(act, tmp_path / "nowhere", [(KEY, build.case())], occasion=TODAY) == ()
    assert not (tmp_path / "nowhere").exists()


def test_rebase_pins_the_cases_at_their_stored_levels(root: Path) -> None:
    for size in (4096, 8192):
        save(root, 1.05e-3, payload_bytes=size)
    (change,) = written(rebase, root, [(KEY, build.case())], occasion=TODAY)
    assert change.before is not None and change.after is not None
    assert (change.before.pinned_s, change.after.pinned_s) == (1e-3, 1.05e-3)
    assert change.before.sessions == change.after.sessions
    baseline, other = found(root), found(root, payload_bytes=8192)
    assert baseline is not None and other is not None
    assert (baseline.pinned_s, baseline.pinned_date) == (1.05e-3, TODAY.date)
    assert other.pinned_s == 1e-3
    assert history(root)[-1] == {
        "date": TODAY.date,
        "entries": 1,
        "worst_percent": 0.0,
        "reason": "a new machine",
    }


def test_rebase_leaves_a_pin_that_is_at_its_level_and_another_protocol(root: Path) -> None:
    assert written(rebase, root, [(KEY, build.case())], occasion=TODAY) == ()
    save(root, 1.05e-3)
    other = build.case(protocol="host/another")
    assert written(rebase, root, [(KEY, other)], occasion=TODAY) == ()

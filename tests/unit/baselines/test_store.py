"""Baselines are found and saved: atomically, by one writer at a time, without losses."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from busbw import storage
from busbw.baselines.document import BaselineError
from busbw.baselines.store import find_baseline, find_published_bandwidth
from busbw.baselines.updates import put_accepted_baselines
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, Record
from tests.helpers import build
from tests.unit.baselines.written import written

FILE = Path("amd-epyc-2c", "4r", "jax.all_reduce.psum.json")
TODAY = Record(moment="2026-03-04T03:00:00Z", commit="abc")
BUDGET = 0.10


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the path of the baselines folder, which does not exist yet."""
    return tmp_path / "baselines"


def _save(
    root: Path,
    *times_s: float,
    payload_bytes: int = 4096,
    key: EnvironmentKey | None = None,
    only_new: bool = False,
    **case: Any,
) -> tuple[Any, ...]:
    measured = build.measurement(*times_s, payload_bytes=payload_bytes, **case)
    accepted = [build.accepted(measured, TODAY, key=key or build.key())]
    changes, _ = written(
        put_accepted_baselines,
        root,
        accepted,
        session=TODAY,
        budget=BUDGET,
        only_new_cases=only_new,
        reason="why",
    )
    return changes


def _find_stored(root: Path, payload_bytes: int = 4096) -> Any:
    """Return the stored baseline, typed so that a test needs no check for None."""
    return find_baseline(root, build.key(), build.case(payload_bytes=payload_bytes)).baseline


def test_a_baseline_is_unchanged_after_it_is_saved_and_read_back(root: Path) -> None:
    (change,) = _save(root, 1e-3, 1.25e-3)
    baseline = _find_stored(root)
    assert baseline == change.baseline_after
    assert baseline == Baseline(
        case=build.case(),
        records=(build.session(1e-3, 1.25e-3, date=TODAY.date, commit=TODAY.commit),),
        pinned_us=1125.0,
        pinned_date=TODAY.date,
    )
    assert (root / FILE, None) == (change.path, change.baseline_before)


def test_a_saved_out_of_memory_baseline_keeps_its_needed_and_available_bytes(root: Path) -> None:
    measured = build.measurement(
        failures=(build.out_of_memory(needed_bytes=20, available_bytes=10),)
    )
    written(
        put_accepted_baselines,
        root,
        [build.accepted(measured, TODAY)],
        session=TODAY,
        budget=BUDGET,
    )
    baseline = _find_stored(root)
    assert (
        baseline.is_out_of_memory,
        baseline.times_s,
        baseline.needed_bytes,
        baseline.available_bytes,
    ) == (
        True,
        (),
        20,
        10,
    )
    assert (baseline.date, baseline.level_s, baseline.pinned_s) == (TODAY.date, None, None)


def test_a_saved_baseline_replaces_only_the_baseline_of_the_same_payload(root: Path) -> None:
    _save(root, 1e-3)
    _save(root, 2e-3, payload_bytes=8192)
    (change,) = _save(root, 3e-3)
    assert (change.baseline_before.times_s, change.baseline_after.times_s) == ((1e-3,), (3e-3,))
    assert _find_stored(root, 8192).times_s == (2e-3,)


def test_saving_only_new_baselines_does_not_replace_the_baseline_of_a_stored_payload(
    root: Path,
) -> None:
    _save(root, 1e-3)
    before = (root / FILE).read_bytes()
    assert _save(root, 9e-3, only_new=True) == ()
    assert before == (root / FILE).read_bytes()
    assert len(_save(root, 9e-3, payload_bytes=8192, only_new=True)) == 1


@pytest.mark.parametrize("case", [{"dtype": "float16"}, {"reduce_op": "max"}, {"placement": "out"}])
def test_a_baseline_is_found_only_for_the_same_dtype_and_reduce_op_and_placement(
    root: Path, case: dict[str, str]
) -> None:
    _save(root, 1e-3)
    assert find_baseline(root, build.key(), build.case(**case)).baseline is None


@pytest.mark.parametrize("nonsense", ["", "{}", "[1, 2", '{"version": 99}'])
def test_an_invalid_baseline_file_is_an_error_and_is_not_overwritten(
    root: Path, nonsense: str
) -> None:
    other = build.key(ranks=8)
    _save(root, 1e-3)
    _save(root, 1e-3, key=other)
    (root / FILE).write_text(nonsense)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    measured = build.measurement(5e-3)
    accepted = [build.accepted(measured, key=key) for key in (other, build.key())]
    with pytest.raises(BaselineError, match=r"jax\.all_reduce\.psum\.json"):
        written(put_accepted_baselines, root, accepted, session=TODAY, budget=BUDGET)
    assert before == {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_saving_a_baseline_leaves_only_a_file_that_all_users_may_read(root: Path) -> None:
    _save(root, 1e-3)
    assert [root / FILE] == [path for path in root.rglob("*") if path.is_file()]
    assert (root / FILE).stat().st_mode & 0o777 == 0o644


def test_the_error_about_a_folder_of_baselines_that_another_session_locked_names_the_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = storage.lock_folder
    monkeypatch.setattr(storage, "lock_folder", partial(lock, wait_s=0.01))
    _save(root, 1e-3)
    before = _find_stored(root)
    message = (
        rf"^{root}: it cannot be locked for writing: another session has been writing for 0.01 s"
    )
    with lock(root, 0), pytest.raises(BaselineError, match=message):
        _save(root, 2e-3)
    assert _find_stored(root) == before


def test_a_folder_of_baselines_that_cannot_be_locked_is_an_error_and_stays_empty(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(BaselineError, match=rf"^{root}: it cannot be locked .*No locks available"):
        _save(root, 1e-3)
    assert not list(root.iterdir())


KEY = EnvironmentKey(device_kind="TPU v2", ranks=8, mesh="2x4")


def _table(**changes: Any) -> dict[str, Any]:
    """Return a table of published figures; a key that is changed to an ellipsis is missing."""
    ordinary = {
        "document": "busbw published figures",
        "version": 1,
        "source": "a paper, table 3",
        "slice": "v2-8",
        "device_kind": "TPU v2",
        "ranks": 8,
        "collective": "all_reduce",
        "algbw_gb_per_s": {"4K": 1.5, "1M": None},
        "doubts": {"1M": "a typing error?"},
    }
    return {name: value for name, value in {**ordinary, **changes}.items() if value is not ...}


def _published(root: Path, document: Any, name: str = "paper") -> Path:
    path = root / "tpu-v2" / "8r" / f"published.all_reduce.{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_a_published_out_of_memory_entry_keeps_the_remark_that_its_source_is_doubtful(
    tmp_path: Path,
) -> None:
    _published(tmp_path, _table())
    published: Any = find_published_bandwidth(tmp_path, KEY, build.case(payload_bytes=2**20))
    assert (published.oom, published.algbw_gb_per_s, published.doubt) == (
        True,
        None,
        "a typing error?",
    )


def test_a_published_rate_is_found_only_for_its_payload_and_collective_and_number_of_ranks(
    tmp_path: Path,
) -> None:
    assert find_published_bandwidth(tmp_path, KEY, build.case()) is None
    _published(tmp_path, _table())
    assert find_published_bandwidth(tmp_path, KEY, build.case(payload_bytes=8192)) is None
    assert find_published_bandwidth(tmp_path, KEY, build.case(collective="all_gather")) is None
    other = EnvironmentKey(device_kind="TPU v2", ranks=4)
    assert find_published_bandwidth(tmp_path, other, build.case()) is None


def test_a_published_rate_is_read_from_the_alphabetically_first_table_that_has_the_case(
    tmp_path: Path,
) -> None:
    _published(tmp_path, _table(algbw_gb_per_s={"1M": None}, source="first"), name="a")
    _published(tmp_path, _table(source="second"), name="b")
    published: Any = find_published_bandwidth(tmp_path, KEY, build.case())
    assert published.source == "v2-8: second"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source": ...}, r"source: missing"),
        ({"gbps": 1}, r"gbps: unknown key"),
        ({"algbw_gb_per_s": {"4K": "1.5"}}, r"algbw_gb_per_s\.4K: expected a number"),
        ({"algbw_gb_per_s": {"4K": 1e300}}, r"algbw_gb_per_s\.4K: expected a number above 0"),
        ({"algbw_gb_per_s": {"4K": -0.0}}, r"algbw_gb_per_s\.4K: expected a number above 0"),
        ({"algbw_gb_per_s": {"4096": 1.5}}, r"algbw_gb_per_s\.4096: expected 4K, got '4096'"),
        ({"doubts": {"4K": "\udfff"}}, r"doubts\.4K: expected text"),
    ],
)
def test_an_invalid_table_of_published_rates_is_refused_with_its_file_and_key(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    _published(tmp_path, _table(**changes))
    with pytest.raises(BaselineError, match=rf"paper\.json: document\.{words}"):
        find_published_bandwidth(tmp_path, KEY, build.case())


@pytest.mark.parametrize("link", [Path(), FILE.parent.parent, FILE])
def test_a_baseline_file_or_folder_that_is_a_broken_link_is_refused(
    tmp_path: Path, link: Path
) -> None:
    path = tmp_path / "baselines" / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("gone")
    with pytest.raises(BaselineError, match="is a link to nothing"):
        find_baseline(tmp_path / "baselines", build.key(), build.case())

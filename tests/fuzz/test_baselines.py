"""Baselines, compiled ones and published figures: read, judged, or refused."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from busbw.baselines import files, store
from busbw.baselines.compiled import AcceptedCompiled, find_compiled, save_compiled
from busbw.baselines.document import BaselineError, Status, dumps
from busbw.baselines.store import contents_of, find, find_published
from busbw.baselines.timed import Document, Entry, StoredSession, Update
from busbw.judge.case import Terms, judge_case
from busbw.judge.compiled import CompileTerms, judge_compiled
from busbw.judge.policy import POLICIES
from busbw.model.case import Case
from busbw.model.words import Device
from busbw.report.renderers import rendered
from busbw.report.session import session_tables
from tests import build
from tests.judge.rules import held_against

from .damage import bounded, documents, fuzzed, unchanged

KEY = build.key(ranks=8, mesh="2x4")
CASE = build.case(ranks=8, mesh="2x4")
LARGE = replace(CASE, payload_bytes=2**20)
TERMS = Terms(policy=POLICIES[Device.CPU], cases=1, launches=3)

TIMED = Entry(
    dtype="float32",
    reduce_op="sum",
    placement="in_place",
    payload="4K",
    payload_bytes=4096,
    status=Status.OK,
    pinned_us=1000.0,
    pinned_date=build.DATE,
    sessions=(
        StoredSession(date=build.DATE, at=f"{build.DATE}T02:00:00Z", times_us=(1000.0, 1010.0)),
        StoredSession(
            date=build.DATE,
            at=f"{build.DATE}T03:00:00Z",
            commit="abc",
            times_us=(1001.0, 999.0, 1002.0),
        ),
    ),
    protocol=CASE.protocol,
)
FULL = Entry(
    dtype="float32",
    reduce_op="sum",
    placement="in_place",
    axes="y",
    payload="1M",
    payload_bytes=2**20,
    status=Status.OOM,
    needed_bytes=2**33,
    available_bytes=2**30,
    protocol=CASE.protocol,
    date=build.DATE,
)
FILE = json.loads(
    dumps(
        Document(
            environment=KEY,
            framework=CASE.framework,
            collective=CASE.collective,
            strategy=CASE.strategy,
            entries=(TIMED, FULL),
            history=(Update(date=build.DATE, entries=2, worst_percent=1.5, reason="why"),),
        )
    )
)


def _compiled() -> Any:
    one = AcceptedCompiled(key=KEY, case=CASE, now=build.compiled(), release="libtpu 1")
    full = replace(one, case=LARGE, now=build.out_of_memory())
    with tempfile.TemporaryDirectory() as folder:
        first, _ = save_compiled(Path(folder), [one, full], date=build.DATE)
        return json.loads(first.path.read_bytes())


COMPILED = _compiled()
PUBLISHED = {
    "document": "busbw published figures",
    "version": 1,
    "source": "a paper",
    "method": "another",
    "slice": "v2-8",
    "device_kind": KEY.device_kind,
    "ranks": 8,
    "collective": "all_reduce",
    "entries": [
        {"payload": "4K", "payload_bytes": 4096, "status": "ok", "algbw_gb_per_s": 1.5},
        {"payload": "1M", "payload_bytes": 2**20, "status": "oom", "doubt": "a sum"},
    ],
}


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of baselines."""
    return tmp_path_factory.mktemp("fuzz")


def _held_against(root: Path, case: Case) -> None:
    """Read as a session does it, judge and show."""
    found = find(root, KEY, case)
    reference = find_published(root, KEY, case)
    runs = tuple(build.run(1e-3, launch=f"{n}.0") for n in range(3))
    measured = replace(build.measurement(1e-3), case=case, runs=runs)
    spec = build.spec(payload_bytes=case.payload_bytes)
    stored = held_against(found.baseline, measured, TERMS.policy) if found.baseline else None
    one = judge_case(spec, measured, stored, TERMS, published=reference)
    assert one.verdict.explain()
    assert found.baseline is None or found.baseline.case.clock
    assert rendered("text", *session_tables([one.verdict], {}))


def _or_refused(root: Path, path: Path, read: Callable[[], object]) -> None:
    """`path` is read and nothing is written, or the error of baselines names it."""
    with unchanged(root), bounded():
        try:
            read()
        except BaselineError as error:
            assert str(error).startswith(str(path))


def test_what_is_not_damaged_is_held_against(root: Path) -> None:
    path = files.path_of(root, KEY, CASE)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(FILE))
    for case in (CASE, build.workload_of(LARGE, axes="y")):
        assert find(root, KEY, case).baseline is not None


@fuzzed
@given(content=documents(FILE))
def test_any_baseline_is_held_against_or_refused(content: bytes, root: Path) -> None:
    path = files.path_of(root, KEY, CASE)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    _or_refused(root, path, lambda: _held_against(root, CASE))
    _or_refused(root, path, lambda: _held_against(root, build.workload_of(LARGE, axes="y")))
    _or_refused(root, path, lambda: contents_of(path))


@fuzzed
@given(content=documents(COMPILED))
def test_any_compiled_baseline_is_compared_with_or_refused(content: bytes, root: Path) -> None:
    path = files.path_of(root / files.COMPILED_FOLDER, KEY, CASE)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)

    def compare() -> None:
        for case in (CASE, LARGE):
            before = find_compiled(root, KEY, case)
            spec = build.spec(topology="v5e:2x4")
            terms = CompileTerms()
            judge_compiled(spec, case, build.compiled(), before, terms, release="now")

    _or_refused(root, path, compare)


@fuzzed
@given(content=documents(PUBLISHED))
def test_any_published_figures_are_shown_or_refused(content: bytes, root: Path) -> None:
    kind = replace(KEY, cores=None).folder.parts[0]
    path = root / kind / "8r" / "published.all_reduce.paper.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    _or_refused(root, path, lambda: store.read_published(path))
    _or_refused(root, path, lambda: _held_against(root, CASE))

"""Baselines, compiled ones and published figures: read, judged, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from busbw.baselines import files, store
from busbw.baselines.document import (
    COMPILED_FOLDER,
    PROGRAMS,
    TIMED,
    BaselineError,
    BaselineFile,
    Codec,
    Update,
    dumps,
    read,
)
from busbw.baselines.store import find, find_compiled, find_published
from busbw.judge.case import Terms, judge_case
from busbw.judge.compiled import CompileTerms, judge_compiled
from busbw.judge.policy import POLICIES
from busbw.model.case import Case
from busbw.model.stored import Stored
from busbw.model.words import Device
from busbw.report.renderers import rendered
from busbw.report.session import session_tables
from tests.helpers import build
from tests.helpers.damage import bounded, documents, fuzzed, unchanged
from tests.unit.judge.rules import limit_of

KEY = build.key(ranks=8, mesh="2x4")
CASE = build.case(ranks=8, mesh="2x4")
LARGE = replace(CASE, payload_bytes=2**20)
TERMS = Terms(policy=POLICIES[Device.CPU], cases=1, launches=3)

TIMED_CASE = build.pooled(
    build.session(1000e-6, 1010e-6, at=f"{build.DATE}T02:00:00Z"),
    build.session(1001e-6, 999e-6, 1002e-6, commit="abc"),
    ranks=8,
    mesh="2x4",
)
FULL = replace(
    build.baseline(ranks=8, mesh="2x4", axes="y", payload_bytes=2**20),
    needed_bytes=2**33,
    available_bytes=2**30,
)
UPDATE = Update(date=build.DATE, entries=2, worst_percent=1.5, reason="why")


def _document(codec: Codec[Any], *baselines: Stored, history: tuple[Update, ...] = ()) -> Any:
    found: BaselineFile[Any] = BaselineFile(
        key=KEY,
        framework=CASE.framework,
        collective=CASE.collective,
        strategy=CASE.strategy,
        baselines=baselines,
        history=history,
    )
    return json.loads(dumps(codec, found))


FILE = _document(TIMED, TIMED_CASE, FULL, history=(UPDATE,))
COMPILED = _document(
    PROGRAMS,
    build.compiled_baseline(build.compiled(), case=CASE),
    build.compiled_baseline(case=LARGE, needed_bytes=2**33),
)
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
    limit = limit_of(found.baseline, measured, TERMS.policy)
    one = judge_case(spec, measured, found.baseline, limit, TERMS, published=reference)
    assert one.verdict.explain()
    assert found.baseline is None or found.baseline.case.clock
    assert rendered("text", *session_tables([one.verdict], ()))


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
    _or_refused(root, path, lambda: read(TIMED, path))


@fuzzed
@given(content=documents(COMPILED))
def test_any_compiled_baseline_is_compared_with_or_refused(content: bytes, root: Path) -> None:
    path = files.path_of(root / COMPILED_FOLDER, KEY, CASE)
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

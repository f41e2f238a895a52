"""The format of a baseline file: it is read back unchanged, and invalid files are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines.document import (
    BaselineError,
    BaselineFile,
    ChangeLogEntry,
    baselines_text,
    read_baselines,
)
from busbw.model.stored import Baseline
from tests.helpers import build

SESSION = build.session(812.4e-6, 799.0e-6, commit="abc")
SMALL = Baseline(
    case=build.case(protocol="host/chain1"),
    records=(SESSION, replace(SESSION, moment=f"{build.DATE}T23:00:00Z", times_us=(801.5, 800.0))),
    pinned_us=790.0,
    pinned_date=build.DATE,
)
LARGE = Baseline(
    case=build.case(payload_bytes=2**20, dtype="int32", protocol="host/chain1"),
    records=(replace(SESSION, times_us=()),),
    needed_bytes=2**33,
)
UPDATE = ChangeLogEntry(date=build.DATE, entries=2, reason="a slower switch")
FILE = BaselineFile(
    environment=build.key(),
    framework="jax",
    collective="all_reduce",
    strategy="psum",
    baselines=(SMALL, LARGE),
    history=(UPDATE, replace(UPDATE, accepted_regression=True)),
)
TEXT = baselines_text(FILE)


def _written(folder: Path, text: str) -> Path:
    path = folder / "jax.all_reduce.psum.json"
    path.write_text(text)
    return path


def test_a_baseline_file_has_the_same_entries_after_it_is_written_and_read_back(
    tmp_path: Path,
) -> None:
    assert read_baselines(_written(tmp_path, TEXT)) == FILE


def test_the_text_of_a_baseline_file_does_not_depend_on_the_order_of_its_baselines() -> None:
    assert baselines_text(replace(FILE, baselines=(LARGE, SMALL))) == TEXT


@pytest.mark.parametrize("commit", ["abc", "other"])
def test_a_baseline_file_keeps_two_sessions_of_the_same_second_separate(
    tmp_path: Path, commit: str
) -> None:
    other = replace(SESSION, times_us=(900.0,), commit=commit)
    both = replace(FILE, baselines=(replace(SMALL, records=(SESSION, other)),))
    assert read_baselines(_written(tmp_path, baselines_text(both))) == both


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ": 1:1: not JSON"),
        ('{\n  "version": 1,\n  "entries": [,]\n}', ": 3:15: not JSON"),
        ('{"version": 1', ": 1:14: not JSON"),
        ('{"version": 1, "version": 1}', ": the key 'version' occurs twice"),
        ("[]", ": document: expected an object, got []"),
        ("null", ": document: expected an object, got None"),
    ],
)
def test_a_text_that_is_no_baseline_document_is_refused_with_its_file_and_place(
    tmp_path: Path, text: str, place: str
) -> None:
    path = _written(tmp_path, text)
    with pytest.raises(BaselineError) as caught:
        read_baselines(path)
    assert str(caught.value).startswith(f"{path}{place}")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"version": 2}, "this says 'busbw baselines' of version 2"),
        ({"version": True}, "this says 'busbw baselines' of version True"),
        ({"version": "1"}, "this says 'busbw baselines' of version '1'"),
        ({"document": "busbw history"}, "this says 'busbw history' of version 1"),
        ({"document": None}, "this says None of version 1"),
        ({"document": ..., "version": ..., "schema": 3}, "this says None of version None"),
        ({"document": ...}, "this says None of version 1"),
    ],
)
def test_a_baseline_file_of_another_format_is_refused_with_the_expected_format_and_a_remedy(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    document = {**json.loads(TEXT), **changes, "novelty": True}
    path = _written(tmp_path, json.dumps({k: v for k, v in document.items() if v is not ...}))
    with pytest.raises(BaselineError) as refused:
        read_baselines(path)
    assert str(refused.value) == (
        f"{path}: {problem}; expected 'busbw baselines' of version 1: move the file away, and "
        "record it again with --update-baselines=all"
    )


AT = f"{build.DATE}T03:00:00Z"
TIMES = r"entries\[0\]\.times_us"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"times_us": {}}, rf"{TIMES}: expected times, or the session that was out_of_memory"),
        ({"out_of_memory": AT}, rf"{TIMES}: expected times, or the session that was out_of_mem"),
        ({"times_us": []}, rf"{TIMES}: expected an object"),
        ({"pinned_us": None}, r"entries\[0\]\.pinned_us: expected with times and only then"),
        (
            {"pinned_us": 0},
            r"entries\[0\]\.pinned_us: expected 1e-06 to 1e\+12 microseconds",
        ),
        ({"pinned_date": None}, r"entries\[0\]\.pinned_date: expected with times and only then"),
        ({"pinned_date": "soon"}, r"entries\[0\]\.pinned_date: expected a date such as"),
        ({"memory_limit_bytes": 1}, r"entries\[0\]\.memory_limit_bytes: expected only where"),
        ({"memory_limit_bytes": 0}, r"entries\[0\]\.memory_limit_bytes: expected 1 or more"),
        ({"needed_bytes": -1}, r"entries\[0\]\.needed_bytes: expected 0 or more, got -1"),
        ({"payload": "4096"}, r"entries\[0\]\.payload: expected 4K, got '4096'"),
        ({"payload": "0"}, r"entries\[0\]\.payload: '0' is not a size"),
        ({"payload": 4096}, r"entries\[0\]\.payload: expected a string"),
        ({"axes": "x"}, r"entries\[0\]\.axes: expected none without a mesh"),
        ({"speed": 1}, r"entries\[0\]\.speed: unknown key; accepted are payload"),
        ({"payload": "1M", "dtype": "int32"}, r"entries\[1\]: a second entry for its payload"),
        ({"times_us": {AT: [812.4, "fast"]}}, rf"{TIMES}\.{AT}\[1\]: expected a number"),
        ({"times_us": {AT: [812.4, -1]}}, rf"{TIMES}\.{AT}\[1\]: expected 1e-06 to 1e\+12 micro"),
        ({"times_us": {AT: [0]}}, rf"{TIMES}\.{AT}\[0\]: expected 1e-06 to 1e\+12 microsec"),
        ({"times_us": {AT: [10**400]}}, rf"{TIMES}\.{AT}\[0\]: expected a number"),
        ({"times_us": {AT: [float("nan")]}}, rf"{TIMES}\.{AT}\[0\]: expected a finite number"),
        ({"times_us": {AT: 812.4}}, rf"{TIMES}\.{AT}: expected a list"),
        ({"times_us": {AT: []}}, rf"{TIMES}\.{AT}: expected one or more"),
        ({"times_us": {"then": [1.0]}}, r"entries\[0\]: the session 'then' is none of document.se"),
    ],
)
def test_an_invalid_entry_of_a_baseline_file_is_refused_with_its_file_and_key(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    document = json.loads(TEXT)
    document["entries"][0].update(changes)
    path = _written(tmp_path, json.dumps(document))
    with pytest.raises(BaselineError, match=rf"psum\.json: document\.{words}"):
        read_baselines(path)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("yesterday", {}, "expected a moment such as 2026-01-31T03:00:00Z, got 'yesterday'"),
        (build.DATE, {}, "expected a moment such as 2026-01-31T03:00:00Z, got "),
        (f"{AT}-1", {}, "expected a moment such as 2026-01-31T03:00:00Z, got "),
        (AT, {"speed": 1}, r"speed: unknown key; accepted are commit"),
        (AT, {"versions": {"jax": 10}}, r"versions\.jax: expected a string"),
    ],
)
def test_an_invalid_session_of_a_baseline_file_is_refused_with_its_file_and_key(
    tmp_path: Path, name: str, changes: dict[str, Any], words: str
) -> None:
    document = json.loads(TEXT)
    document["sessions"][name] = changes
    path = _written(tmp_path, json.dumps(document))
    with pytest.raises(
        BaselineError, match=rf"psum\.json: document\.sessions\.{name}(\.|: ){words}"
    ):
        read_baselines(path)

"""One baseline file: a round trip, lines fit for review, and hand-edited nonsense refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines.document import BaselineError, Status, dumps
from busbw.baselines.files import read
from busbw.baselines.timed import TIMED, Document, Entry, StoredSession, Update
from busbw.model.machine import Protocol
from tests import build

SESSION = StoredSession(
    date=build.DATE,
    at=f"{build.DATE}T03:00:00Z",
    commit="abc",
    times_us=(812.4, 799.0),
    versions=build.VERSIONS,
)
ENTRY = Entry(
    dtype="float32",
    reduce_op="sum",
    placement="in_place",
    payload="4K",
    payload_bytes=4096,
    status=Status.OK,
    pinned_us=790.0,
    pinned_date=build.DATE,
    sessions=(SESSION, replace(SESSION, times_us=(801.5, 800.0))),
    protocol=Protocol.parse("host/chain1"),
)
LARGE = replace(
    ENTRY,
    payload="1M",
    payload_bytes=2**20,
    status=Status.OOM,
    sessions=(),
    pinned_us=None,
    pinned_date="",
    needed_bytes=2**33,
    date=build.DATE,
    versions=build.VERSIONS,
)
UPDATE = Update(date=build.DATE, entries=2, worst_percent=2.5, reason="a slower switch")
DOCUMENT = Document(
    environment=build.key(),
    framework="jax",
    collective="all_reduce",
    strategy="psum",
    entries=(ENTRY, LARGE),
    history=(UPDATE, replace(UPDATE, accepted_regression=True)),
)


def _written(folder: Path, text: str) -> Path:
    path = folder / "jax.all_reduce.psum.json"
    path.write_text(text)
    return path


def _edited(folder: Path, **entry: Any) -> Path:
    """The document with keys of its first entry changed."""
    document = json.loads(dumps(DOCUMENT))
    document["entries"][0].update(entry)
    return _written(folder, json.dumps(document))


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read(TIMED, _written(tmp_path, dumps(DOCUMENT))) == DOCUMENT


def test_a_document_without_entries_is_read_as_it_was_written(tmp_path: Path) -> None:
    empty = replace(DOCUMENT, entries=(), history=())
    assert empty == read(TIMED, _written(tmp_path, dumps(empty)))


def test_each_payload_stands_on_one_line_in_order() -> None:
    backwards = replace(DOCUMENT, entries=(LARGE, ENTRY))
    assert dumps(DOCUMENT) == dumps(backwards)
    rows = [row for row in dumps(DOCUMENT).splitlines() if '"payload"' in row]
    assert [json.loads(row.strip().rstrip(","))["payload"] for row in rows] == ["4K", "1M"]


def test_another_time_changes_one_line_only() -> None:
    slower = replace(DOCUMENT, entries=(replace(ENTRY, pinned_us=900.0), LARGE))
    pairs = zip(dumps(DOCUMENT).splitlines(), dumps(slower).splitlines(), strict=True)
    assert sum(before != after for before, after in pairs) == 1


def test_the_text_ends_with_one_newline() -> None:
    assert dumps(DOCUMENT).endswith("}\n")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ":1:1: not JSON"),
        ('{\n  "version": 1,\n  "entries": [,]\n}', ":3:15: not JSON"),
        ('{"version": 1', ":1:14: not JSON"),
        ('{"version": 1, "version": 1}', ": the key 'version' occurs twice"),
        ("[]", ": document: expected an object, got []"),
        ("null", ": document: expected an object, got None"),
    ],
)
def test_what_is_no_document_is_refused_with_file_and_place(
    tmp_path: Path, text: str, place: str
) -> None:
    path = _written(tmp_path, text)
    with pytest.raises(BaselineError) as caught:
        read(TIMED, path)
    assert str(caught.value).startswith(f"{path}{place}")


def test_bytes_that_are_no_text_are_refused_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(BaselineError, match=r"bad\.json: "):
        read(TIMED, path)


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"gone\.json: "):
        read(TIMED, tmp_path / "gone.json")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"version": 2}, "this says 'busbw baseline' of version 2"),
        ({"version": True}, "this says 'busbw baseline' of version True"),
        ({"version": "1"}, "this says 'busbw baseline' of version '1'"),
        ({"document": "busbw history"}, "this says 'busbw history' of version 1"),
        ({"document": None}, "this says None of version 1"),
        ({"document": ..., "version": ..., "schema": 3}, "this is of an earlier busbw (schema 3)"),
        ({"document": ...}, "this does not say what it is"),
    ],
)
def test_another_format_is_refused_with_what_is_accepted_and_what_helps(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    document = {**json.loads(dumps(DOCUMENT)), **changes, "novelty": True}
    path = _written(tmp_path, json.dumps({k: v for k, v in document.items() if v is not ...}))
    with pytest.raises(BaselineError) as refused:
        read(TIMED, path)
    assert str(refused.value) == (
        f"{path}: {what}; accepted is 'busbw baseline' of version 1: move the file away, and "
        "record it again with --update-baselines=all"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sessions": []}, r"entries\[0\]\.sessions: expected at least one, or the status 'oom'"),
        ({"sessions": {}}, r"entries\[0\]\.sessions: expected a list"),
        ({"pinned_us": None}, r"entries\[0\]\.pinned_us: missing"),
        ({"pinned_us": 0}, r"entries\[0\]\.pinned_us: expected microseconds above 0"),
        ({"pinned_date": ""}, r"entries\[0\]\.pinned_date: missing"),
        ({"date": build.DATE}, r"entries\[0\]\.date: expected in the sessions"),
        ({"status": "oom"}, r"entries\[0\]\.sessions: expected none with the status 'oom'"),
        ({"status": "good"}, r"entries\[0\]\.status: expected one of ok, oom, got 'good'"),
        ({"payload": "8K"}, r"entries\[0\]\.payload: '8K' is not 4096 bytes; expected '4K'"),
        ({"payload_bytes": 4097}, r"entries\[0\]\.payload: '4K' is not 4097 bytes"),
        ({"payload": "0", "payload_bytes": 0}, r"entries\[0\]\.payload: '0' is not 0 bytes"),
        ({"payload_bytes": "4096"}, r"entries\[0\]\.payload_bytes: expected a whole number"),
        ({"speed": 1}, r"entries\[0\]\.speed: unknown key; accepted are dtype"),
        ({"versions": {"jax": 10}}, r"entries\[0\]\.versions\.jax: expected a string"),
        ({"payload": "1M", "payload_bytes": 2**20}, r"entries\[1\]: a second entry for float32 1M"),
    ],
)
def test_a_nonsensical_entry_is_refused_with_file_and_key_path(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    path = _edited(tmp_path, **changes)
    with pytest.raises(BaselineError, match=rf"psum\.json: document\.{words}"):
        read(TIMED, path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"times_us": [812.4, "fast"]}, r"times_us\[1\]: expected a number"),
        ({"times_us": [812.4, -1]}, r"times_us\[1\]: expected microseconds above 0"),
        ({"times_us": [0]}, r"times_us\[0\]: expected microseconds above 0"),
        ({"times_us": [10**400]}, r"times_us\[0\]: expected a number"),
        ({"times_us": [float("nan")]}, r"times_us\[0\]: expected a finite number"),
        ({"times_us": 812.4}, r"times_us: expected a list"),
        ({"times_us": []}, r"times_us: expected at least one time"),
        ({"at": "yesterday"}, r"at: expected a moment such as 2026-01-31T03:00:00Z, got"),
        ({"at": build.DATE}, r"at: expected a moment such as 2026-01-31T03:00:00Z, got"),
        ({"at": 7}, r"at: expected a string"),
        ({"speed": 1}, r"speed: unknown key; accepted are date"),
        ({"versions": {"jax": 10}}, r"versions\.jax: expected a string"),
    ],
)
def test_a_nonsensical_session_is_refused_with_file_and_key_path(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    document = json.loads(dumps(DOCUMENT))
    document["entries"][0]["sessions"][1].update(changes)
    path = _written(tmp_path, json.dumps(document))
    with pytest.raises(
        BaselineError, match=rf"psum\.json: document\.entries\[0\]\.sessions\[1\]\.{words}"
    ):
        read(TIMED, path)


def test_a_session_is_written_with_the_moment_at_which_it_began() -> None:
    session = json.loads(dumps(DOCUMENT))["entries"][0]["sessions"][0]
    assert session["at"] == "2026-01-02T03:00:00Z"
    assert list(session)[:2] == ["date", "at"]


def test_an_update_stands_on_one_line_with_what_is_not_usual() -> None:
    rows = [row.strip() for row in dumps(DOCUMENT).splitlines() if "worst_percent" in row]
    assert [json.loads(row.rstrip(",")) for row in rows] == [
        {
            "date": build.DATE,
            "entries": 2,
            "worst_percent": 2.5,
            "reason": "a slower switch",
            **more,
        }
        for more in ({}, {"accepted_regression": True})
    ]


def test_out_of_memory_needs_its_date(tmp_path: Path) -> None:
    document = json.loads(dumps(DOCUMENT))
    del document["entries"][1]["date"]
    with pytest.raises(BaselineError, match=r"entries\[1\]\.date: expected one with the status"):
        read(TIMED, _written(tmp_path, json.dumps(document)))


def test_a_missing_key_is_refused_with_file_and_key_path(tmp_path: Path) -> None:
    document = json.loads(dumps(DOCUMENT))
    del document["entries"][1]["protocol"]
    with pytest.raises(BaselineError, match=r"document\.entries\[1\]\.protocol: missing"):
        read(TIMED, _written(tmp_path, json.dumps(document)))

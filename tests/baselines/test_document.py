"""One baseline file: a round trip, lines fit for review, and hand-edited nonsense refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines import BaselineError
from busbw.baselines.document import Document, Entry, Status, dumps, read
from tests import build

ENTRY = Entry(
    dtype="float32",
    reduce_op="sum",
    placement="in_place",
    payload="4K",
    payload_bytes=4096,
    status=Status.OK,
    times_us=(812.4, 799.0),
    protocol="host/chain1",
    date=build.DATE,
    versions=build.VERSIONS,
)
LARGE = replace(
    ENTRY, payload="1M", payload_bytes=2**20, status=Status.OOM, times_us=(), needed_bytes=2**33
)
DOCUMENT = Document(
    schema=1,
    environment=build.key(),
    framework="jax",
    collective="all_reduce",
    strategy="psum",
    entries=(ENTRY, LARGE),
)


def _written(folder: Path, text: str) -> Path:
    path = folder / "jax.all_reduce.psum.json"
    path.write_text(text)
    return path


def _edited(folder: Path, **entry: Any) -> Path:
    """The document with keys of its first entry changed, or with `None` removed."""
    document = json.loads(dumps(DOCUMENT))
    document["entries"][0].update(entry)
    return _written(folder, json.dumps(document))


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read(_written(tmp_path, dumps(DOCUMENT))) == DOCUMENT


def test_a_document_without_entries_is_read_as_it_was_written(tmp_path: Path) -> None:
    empty = replace(DOCUMENT, entries=())
    assert empty == read(_written(tmp_path, dumps(empty)))


def test_each_payload_stands_on_one_line_in_order() -> None:
    backwards = replace(DOCUMENT, entries=(LARGE, ENTRY))
    assert dumps(DOCUMENT) == dumps(backwards)
    rows = [row for row in dumps(DOCUMENT).splitlines() if '"payload"' in row]
    assert [json.loads(row.strip().rstrip(","))["payload"] for row in rows] == ["4K", "1M"]


def test_another_time_changes_one_line_only() -> None:
    slower = replace(DOCUMENT, entries=(replace(ENTRY, times_us=(900.0,)), LARGE))
    pairs = zip(dumps(DOCUMENT).splitlines(), dumps(slower).splitlines(), strict=True)
    assert sum(before != after for before, after in pairs) == 1


def test_the_text_ends_with_one_newline() -> None:
    assert dumps(DOCUMENT).endswith("}\n")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ":1:1: not JSON"),
        ('{\n  "schema": 1,\n  "entries": [,]\n}', ":3:15: not JSON"),
        ('{"schema": 1', ":1:13: not JSON"),
        ('{"schema": 1, "schema": 1}', ": the key 'schema' stands twice"),
        ("[]", ": document: expected an object, got []"),
        ("null", ": document: expected an object, got None"),
    ],
)
def test_what_is_no_document_is_refused_with_file_and_place(
    tmp_path: Path, text: str, place: str
) -> None:
    path = _written(tmp_path, text)
    with pytest.raises(BaselineError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}{place}")


def test_bytes_that_are_no_text_are_refused_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(BaselineError, match=r"bad\.json: "):
        read(path)


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"gone\.json: "):
        read(tmp_path / "gone.json")


@pytest.mark.parametrize("schema", [0, 2, "1", 1.5])
def test_another_schema_is_refused_and_the_known_one_is_named(tmp_path: Path, schema: Any) -> None:
    document = {**json.loads(dumps(DOCUMENT)), "schema": schema, "novelty": True}
    with pytest.raises(BaselineError, match="schema: this version reads 1, got"):
        read(_written(tmp_path, json.dumps(document)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"times_us": [812.4, "fast"]}, r"entries\[0\]\.times_us\[1\]: expected a number"),
        ({"times_us": [812.4, -1]}, r"entries\[0\]\.times_us\[1\]: expected microseconds above 0"),
        ({"times_us": [0]}, r"entries\[0\]\.times_us\[0\]: expected microseconds above 0"),
        ({"times_us": [10**400]}, r"entries\[0\]\.times_us\[0\]: expected a number"),
        ({"times_us": [float("nan")]}, r"entries\[0\]\.times_us\[0\]: expected a finite number"),
        ({"times_us": 812.4}, r"entries\[0\]\.times_us: expected a list"),
        ({"times_us": []}, r"entries\[0\]\.times_us: expected at least one time"),
        ({"status": "oom"}, r"entries\[0\]\.times_us: expected none with the status 'oom'"),
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
        read(path)


def test_a_missing_key_is_refused_with_file_and_key_path(tmp_path: Path) -> None:
    document = json.loads(dumps(DOCUMENT))
    del document["entries"][1]["protocol"]
    with pytest.raises(BaselineError, match=r"document\.entries\[1\]\.protocol: missing"):
        read(_written(tmp_path, json.dumps(document)))

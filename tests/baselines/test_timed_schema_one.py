"""Files of the first schema: read as one session, pinned at its median, strict as ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines import BaselineError
from busbw.baselines.document import dumps
from busbw.baselines.timed import SCHEMA, StoredSession, read
from tests import build

TIMED = {
    "dtype": "float32",
    "reduce_op": "sum",
    "placement": "in_place",
    "payload": "4K",
    "payload_bytes": 4096,
    "status": "ok",
    "times_us": [812.4, 799.0, 900.0],
    "protocol": "host/chain1",
    "date": build.DATE,
    "versions": build.VERSIONS,
}
LARGE = {"payload": "1M", "payload_bytes": 2**20, "status": "oom", "needed_bytes": 2**33}
FIRST = {
    "schema": 1,
    "environment": {"device_kind": "AMD EPYC", "ranks": 4, "cores": 2},
    "framework": "jax",
    "collective": "all_reduce",
    "strategy": "psum",
}


def _written(folder: Path, **changes: Any) -> Path:
    """A file of schema 1 with keys of its first entry changed."""
    oom = {key: value for key, value in TIMED.items() if key != "times_us"} | LARGE
    path = folder / "jax.all_reduce.psum.json"
    path.write_text(json.dumps({**FIRST, "entries": [TIMED | changes, oom]}))
    return path


def test_times_of_the_first_schema_are_one_session_pinned_at_its_median(tmp_path: Path) -> None:
    entry = read(_written(tmp_path)).entries[0]
    assert entry.sessions == (
        StoredSession(date=build.DATE, times_us=(812.4, 799.0, 900.0), versions=build.VERSIONS),
    )
    assert (entry.pinned_us, entry.pinned_date) == (812.4, build.DATE)


def test_out_of_memory_of_the_first_schema_keeps_its_date_and_bytes(tmp_path: Path) -> None:
    entry = read(_written(tmp_path)).entries[1]
    assert (entry.sessions, entry.pinned_us) == ((), None)
    assert (entry.date, entry.needed_bytes) == (build.DATE, 2**33)


def test_a_file_of_the_first_schema_is_written_as_todays(tmp_path: Path) -> None:
    path = _written(tmp_path)
    document = read(path)
    path.write_text(dumps(document))
    assert json.loads(path.read_text())["schema"] == SCHEMA
    assert read(path) == document


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"times_us": ["soon"]}, r"entries\[0\]\.times_us\[0\]: expected a number"),
        ({"times_us": []}, r"entries\[0\]\.sessions: expected at least one"),
        ({"times_us": [-1.0]}, r"times_us\[0\]: expected microseconds above 0"),
        ({"status": "oom"}, r"entries\[0\]\.sessions: expected none with the status 'oom'"),
        ({"pinned_us": 1.0}, r"entries\[0\]\.pinned_us: unknown key"),
    ],
)
def test_nonsense_in_the_first_schema_is_refused_with_file_and_place(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(BaselineError, match=rf"psum\.json: .*{words}"):
        read(_written(tmp_path, **changes))

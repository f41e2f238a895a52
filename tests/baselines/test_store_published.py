"""Figures that others published: found by device kind, ranks and payload, and never half read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines.document import BaselineError
from busbw.baselines.store import find_published
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import Reference
from tests import build

KEY = EnvironmentKey(device_kind="TPU v2", ranks=8, mesh="2x4")
ENTRIES = (
    {"payload": "4K", "payload_bytes": 4096, "status": "ok", "algbw_gb_per_s": 1.5},
    {"payload": "1M", "payload_bytes": 2**20, "status": "oom", "doubt": "a typing error?"},
)


def _table(*entries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    ordinary = {
        "document": "busbw published figures",
        "version": 1,
        "source": "a paper, table 3",
        "method": "by hand",
        "slice": "v2-8",
        "device_kind": "TPU v2",
        "ranks": 8,
        "collective": "all_reduce",
        "entries": entries or ENTRIES,
    }
    return {**ordinary, **changes}


def _published(root: Path, document: Any, name: str = "paper") -> Path:
    path = root / "tpu-v2" / "8r" / f"published.all_reduce.{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_a_published_figure_is_found_by_its_payload(tmp_path: Path) -> None:
    _published(tmp_path, _table())
    assert Reference(
        source="v2-8: a paper, table 3", oom=False, algbw_gb_per_s=1.5
    ) == find_published(tmp_path, KEY, build.case(ranks=8))


def test_a_published_out_of_memory_keeps_its_doubt(tmp_path: Path) -> None:
    _published(tmp_path, _table())
    found = find_published(tmp_path, KEY, build.case(payload_bytes=2**20))
    assert found is not None
    assert (found.oom, found.algbw_gb_per_s, found.doubt) == (True, None, "a typing error?")


def test_what_nobody_published_is_none(tmp_path: Path) -> None:
    assert find_published(tmp_path, KEY, build.case()) is None
    _published(tmp_path, _table())
    assert find_published(tmp_path, KEY, build.case(payload_bytes=8192)) is None
    assert find_published(tmp_path, KEY, build.case(collective="all_gather")) is None
    other = EnvironmentKey(device_kind="TPU v2", ranks=4)
    assert find_published(tmp_path, other, build.case()) is None


def test_of_two_tables_the_first_by_name_that_has_the_payload_is_taken(tmp_path: Path) -> None:
    _published(tmp_path, _table(ENTRIES[1], source="first"), name="a")
    _published(tmp_path, _table(source="second"), name="b")
    found = find_published(tmp_path, KEY, build.case())
    assert found is not None
    assert found.source == "v2-8: second"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"algbw_gb_per_s": None}, r"entries\[0\]\.algbw_gb_per_s: expected with the status 'ok'"),
        ({"status": "oom"}, r"entries\[0\]\.algbw_gb_per_s: expected with the status 'ok'"),
        ({"status": "fine"}, r"entries\[0\]\.status: expected one of ok, oom"),
        ({"gbps": 1}, r"entries\[0\]\.gbps: unknown key"),
        ({"algbw_gb_per_s": "1.5"}, r"entries\[0\]\.algbw_gb_per_s: expected a number"),
        ({"algbw_gb_per_s": 1e300}, r"entries\[0\]\.algbw_gb_per_s: expected GB/s above 0, up to"),
        ({"algbw_gb_per_s": -0.0}, r"entries\[0\]\.algbw_gb_per_s: expected GB/s above 0, up to"),
        ({"payload": "0", "payload_bytes": 0}, r"entries\[0\]\.payload: '0' is not 0 bytes"),
        ({"doubt": "\udfff"}, r"entries\[0\]\.doubt: expected text"),
    ],
)
def test_a_nonsensical_entry_is_refused_with_file_and_key_path(
    tmp_path: Path, entry: dict[str, Any], words: str
) -> None:
    _published(tmp_path, _table({**ENTRIES[0], **entry}))
    with pytest.raises(BaselineError, match=rf"paper\.json: document\.{words}"):
        find_published(tmp_path, KEY, build.case())


def test_a_second_entry_for_a_payload_is_refused(tmp_path: Path) -> None:
    _published(tmp_path, _table(ENTRIES[0], ENTRIES[0]))
    with pytest.raises(BaselineError, match=r"document\.entries\[1\]: a second entry for "):
        find_published(tmp_path, KEY, build.case())


def test_a_table_without_its_source_is_refused(tmp_path: Path) -> None:
    table = _table()
    del table["source"]
    _published(tmp_path, table)
    with pytest.raises(BaselineError, match=r"document\.source: missing"):
        find_published(tmp_path, KEY, build.case())


def test_what_is_no_json_is_refused_with_line_and_column(tmp_path: Path) -> None:
    path = _published(tmp_path, {})
    path.write_text("{\n  version: 1\n}")
    with pytest.raises(BaselineError, match=r"paper\.json:2:3: not JSON"):
        find_published(tmp_path, KEY, build.case())

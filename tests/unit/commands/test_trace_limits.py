"""`python -m busbw trace` over what would take all memory, all time, or never end."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.traces.chrome import MOST_BYTES
from tests.contract.commands.test_files import ENDLESS, GOOD, NO_JSON, loop
from tests.helpers.command_line import asked_here, command, of_2019, of_today, put
from tests.helpers.damage import bounded
from tests.helpers.recordings import complete, numbered, process, sized
from tests.helpers.sweep import sweep

MIB = 2**20


def _packed(*parts: tuple[bytes, int]) -> bytes:
    """Gzip of parts, each repeated as often as is said; it unpacks to their sum."""
    return b"".join(gzip.compress(part, mtime=0) * times for part, times in parts)


def _rows(count: int) -> bytes:
    stats = {"run_id": "12", "long_name": "%fusion = f32[4,1024]{1,0:T(8,128)} fusion(f32[4] %x)"}
    row = json.dumps(complete("fusion.4", pid=1, tid=2, ts=1.5, dur=20, **stats)).encode()
    return (row + b",") * count


BOMBS = {
    "spaces": (
        _packed((b"[", 1), (b" " * 16 * MIB, 65)),
        f"unpacks to more than {MOST_BYTES} bytes (--size-limit)",
    ),
    "rows": (_packed((b"[", 1), (b"{}," * 350_000, 6)), "more than 2000000 rows, twice what"),
    "one value": (
        _packed((b'[{"a": [', 1), (b"[]," * 350_000, 40)),
        "a value of more than 2097152 characters",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sweep(BOMBS))
def test_a_recording_that_unpacks_to_more_than_any_is_refused_quickly_and_in_little_memory(
    tmp_path: Path, name: str
) -> None:
    content, says = BOMBS[name]
    put(tmp_path, a_xplane=of_today(GOOD), b_chrome=content)
    # Two million rows take half of the time already.
    with bounded(most_s=10.0 if name == "rows" else 5.0):
        answer = asked_here("trace", tmp_path, "--payload=1M")
    (line,) = answer.errors
    assert line.split(": ")[0].endswith("b.trace.json.gz") and says in line
    assert (answer.code, len(answer.table)) == (1, 2)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_long_recording_is_read_in_little_memory(tmp_path: Path) -> None:
    """55 MB of text; twice as much takes five seconds of a slow processor."""
    collectives = []
    for core in range(2):
        collectives += process(core + 1, f"/device:TPU:{core}", {2: "XLA Ops"})
        for at, dur in enumerate([1000.0, 100.0, 120.0, 110.0]):
            row = complete("cross-replica-sum", pid=core + 1, tid=2, ts=1e4 * at, dur=dur)
            collectives.append(row)
    last = ",".join(map(json.dumps, collectives)).encode() + b"]}"
    content = _packed((b'{"traceEvents": [', 1), (_rows(5000), 50), (last, 1))
    put(tmp_path, a_chrome=content)
    with bounded():
        answer = asked_here("trace", tmp_path, "--payload=1M")
    assert (answer.code, answer.err) == (0, "")
    assert answer.table[1] == ["1M", f"{MIB / 110 / 1e3:.4g}"]


def test_the_limit_is_an_option_and_holds_for_files_and_for_what_they_unpack_to(
    tmp_path: Path,
) -> None:
    put(tmp_path, a_xplane=of_today(GOOD), b_chrome=of_2019(GOOD))
    answer = asked_here("trace", tmp_path, "--payload=1M", "--size-limit=100")
    for line in answer.errors[:2]:
        assert line.endswith(" has more than 100 bytes (--size-limit)")
    answer = asked_here("trace", tmp_path, "--payload=1M", "--size-limit=1K")
    (line,) = answer.errors
    assert line.endswith("b.trace.json.gz: unpacks to more than 1024 bytes (--size-limit)")
    answer = asked_here("trace", tmp_path, "--payload=1M", "--size-limit=1M")
    assert (answer.code, answer.err) == (0, "")


def test_a_huge_file_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    path.touch()
    os.truncate(path, 2**40)
    with bounded():
        answer = asked_here("trace", path)
    assert "has more than 1073741824 bytes (--size-limit)" in answer.errors[0]
    assert answer.code == 1


def test_a_small_file_of_events_without_number_is_refused_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busbw.traces.event.MOST_KEPT", 1000)
    kind = sized(4, numbered(1, 1) + sized(2, numbered(1, 1) + sized(2, "all-reduce.1")))
    line = sized(3, sized(4, numbered(1, 1)) * 2000)
    put(tmp_path, a_xplane=sized(1, sized(2, "/device:TPU:0") + kind + line))
    answer = asked_here("trace", tmp_path)
    assert answer.errors[0].endswith("more than 1000 events, names and stats to be kept")


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "missing")


NONE: dict[Callable[[Path], None], str] = {
    **ENDLESS,
    _dangling: ": No such file or directory",
    loop: NO_JSON[loop],
}


@pytest.mark.parametrize("name", ["b.xplane.pb", "b.trace.json.gz"])
@pytest.mark.parametrize("become", NONE)
def test_what_bears_the_name_of_a_recording_and_is_none_is_named_and_the_rest_is_read(
    tmp_path: Path, become: Callable[[Path], None], name: str
) -> None:
    inner = put(tmp_path, session="s", a_xplane=of_today(GOOD)) / "plugins" / "profile" / "s"
    become(inner / name)
    for named in (tmp_path, inner / name):
        answer = command("trace", named, "--payload=1M")
        assert answer.errors[0] == f"{inner / name}{NONE[become]}"
        assert answer.code == 1
        assert len(answer.table) == (2 if named is tmp_path else 0)

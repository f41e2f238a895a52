"""Real recordings: extracts of public ones, the whole files where these are, and CPU ones of ours.

The whole files are looked for in the folder that BUSBW_RECORDINGS names. What they hold is worked
out a second time from JAX's own reader, or from the JSON itself.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from busbw.collectives.base import GroupSize
from busbw.traces.chrome import read_chrome
from busbw.traces.collectives import WantedEvents, collectives, only_enqueued, ranks_of
from busbw.traces.event import RecordedCollective, Trace
from busbw.traces.iterations import iterations
from busbw.traces.xplane import read_xplane
from tests.helpers.command_line import asked_here
from tests.helpers.frameworks import needs
from tests.unit.traces import extract, recorded

V6E, VLLM, TENSORFLOW = extract.SOURCES

# What XLA called that program's all-reduces.
PSUM = ("psum", "all-reduce")

# A device's durations in seconds, in the order of time.
Durations = dict[int, list[float]]


def _whole(name: str) -> Path:
    path = extract.whole(name)
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path


def _found(name: str, source: str) -> tuple[RecordedCollective, ...]:
    """The collectives of an extract, or of the whole file, read as the command does."""
    if source == "extract":
        return collectives(extract.read_extract(name))
    path = _whole(name)
    reader = read_xplane if path.name.endswith(".pb") else read_chrome
    return collectives(reader(path.read_bytes(), host=_host(path), keep=WantedEvents()))


def _host(path: Path) -> str:
    return path.name.partition(".xplane")[0].partition(".trace")[0]


def _by_device(found: Sequence[RecordedCollective], kind: str) -> Durations:
    by_device: Durations = defaultdict(list)
    for one in found:
        if one.kind == kind:
            by_device[one.device].append(one.duration_s)
    return by_device


from_each = pytest.mark.parametrize("source", ["extract", "whole"])


@from_each
def test_of_the_v6e_there_are_three_all_reduces_of_5_gib_in_pairs_on_each_device(
    source: str,
) -> None:
    found = _found(V6E, source)
    said = {(one.kind, one.payload_bytes, one.groups, one.program) for one in found}
    assert said == {
        ("all_reduce", 5 * 2**30, GroupSize(groups=4, size=2), "jit__psum(9646411105960254074)")
    }
    totals_ms = {
        device: round(sum(times) * 1e3, 1)
        for device, times in _by_device(found, "all_reduce").items()
    }
    assert totals_ms == {0: 365.1, 1: 365.1, 2: 365.1, 3: 365.1}


@from_each
def test_the_devices_of_the_v6e_number_their_calls_each_for_itself_and_are_still_paired(
    source: str,
) -> None:
    found = _found(V6E, source)
    calls: dict[int, list[str]] = defaultdict(list)
    for one in found:
        calls[one.device].append(one.call)
    assert calls.pop(0) == ["3", "4", "5"]
    assert calls == {device: ["1", "2", "3"] for device in (1, 2, 3)}
    paired = iterations(found, drop_first=False)
    assert [(one.call, len(one.durations_s)) for one in paired] == [("1", 4), ("2", 4), ("3", 4)]


def test_the_device_s_own_times_are_taken_where_the_aligned_ones_are_stretched() -> None:
    events = extract.read_extract(V6E).events
    copies = [event for event in events if event.name == "copy-done.2"]
    stretched = max(copies, key=lambda event: event.aligned_s[1] if event.aligned_s else 0)
    assert stretched.aligned_s is not None
    assert round(stretched.aligned_s[1] * 1e3, 1) == 391.6
    assert {round(event.duration_s * 1e3, 1) for event in copies} == {194.1}


@from_each
def test_of_vllm_there_are_129_all_reduces_of_10_mib_and_128_all_to_alls_on_each_device(
    source: str,
) -> None:
    found = _found(VLLM, source)
    counts: dict[tuple[str, int | None, int], int] = defaultdict(int)
    for one in found:
        counts[one.kind, one.payload_bytes, one.device] += 1
    for device in (0, 1):
        assert counts["all_reduce", 10 * 2**20, device] == 129
        assert counts["all_to_all", 200 * 2**10, device] == 64
        assert counts["all_to_all", 1000 * 2**10, device] == 64
    assert {one.groups for one in found} == {GroupSize(groups=1, size=2)}
    calls = {(one.device, one.call) for one in found if one.kind == "all_reduce"}
    assert calls == {(0, "850"), (1, "247")}


@from_each
def test_of_tensorflow_on_gpus_one_all_reduce_was_enqueued_and_none_is_timed(source: str) -> None:
    if source == "extract":
        trace = extract.read_extract(TENSORFLOW)
    else:
        trace = read_xplane(_whole(TENSORFLOW).read_bytes(), keep=WantedEvents())
    assert (collectives(trace), only_enqueued(trace)) == ((), 1)
    assert len(ranks_of(trace)) == 8


@pytest.mark.parametrize("name", extract.SOURCES)
def test_an_extract_says_the_same_as_the_whole_file(name: str) -> None:
    """But for what only the last picosecond of a float tells apart."""
    ours, whole = (
        [
            (one.kind, one.device, one.call, one.program, one.payload_bytes, one.groups)
            for one in found
        ]
        for found in (_found(name, "extract"), _found(name, "whole"))
    )
    assert ours == whole
    times = [[one.duration_s for one in _found(name, source)] for source in ("extract", "whole")]
    assert times[0] == pytest.approx(times[1], rel=1e-9)


@pytest.mark.exhaustive
@needs("jax")
def test_jax_s_own_reader_says_the_same_of_the_v6e() -> None:
    path = _whole(V6E)
    seen: Durations = defaultdict(list)
    for event in recorded.seen(path):
        if event.line == "XLA Ops" and " all-reduce(" in event.name:
            device = int(event.plane.rpartition(":")[2])
            seen[device].append(int(event.stats["device_duration_ps"]) * 1e-12)
    assert _by_device(_found(V6E, "whole"), "all_reduce") == seen
    paired = iterations(_found(V6E, "whole"))
    wanted_s = statistics.median(max(at_once) for at_once in list(zip(*seen.values()))[1:])
    assert statistics.median(one.slowest_s for one in paired) == wanted_s
    alone = asked_here("trace", path)
    assert (alone.code, alone.table) == (1, [])
    assert "missing: 4 devices without any record; --partial reads the rest" in alone.err
    said = asked_here("trace", path, "--rate=busbw", "--partial")
    # With n = 2 busbw is algbw.
    assert (said.code, said.table[1]) == (0, ["5120M", f"{5 * 2**30 / wanted_s / 1e9:.4g}"])
    assert "3 recorded on each, 365.1 ms in all" in said.out


@pytest.mark.parametrize(
    ("kind", "pattern", "counts"),
    [("all_reduce", PSUM, {129}), ("all_to_all", ("all-to-all",), {64})],
)
def test_the_json_itself_says_the_same_of_vllm(
    kind: str, pattern: tuple[str, ...], counts: set[int]
) -> None:
    path = _whole(VLLM)
    rows = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    seen: Mapping[tuple[str, int], list[float]] = defaultdict(list)
    for row in sorted((row for row in rows if "ts" in row), key=lambda row: float(row["ts"])):
        if row["name"].split(".")[0] in pattern and row["pid"] in (3, 4):
            shape = row["args"]["shape_with_layout"]
            seen[shape[: shape.index("]")], row["pid"]].append(
                int(row["args"]["device_duration_ps"]) * 1e-12
            )
    assert {len(times) for times in seen.values()} == counts
    rates = []
    for shape in {shape for shape, _ in seen}:
        slowest_s = [max(pair) for pair in zip(seen[shape, 3], seen[shape, 4])][1:]
        dtype, _, dimensions = shape.partition("[")
        size = 2 if dtype == "bf16" else 4
        for extent in dimensions.split(","):
            size *= int(extent)
        rates.append(f"{size / statistics.median(slowest_s) / 1e9:.4g}")
    said = asked_here("trace", path, f"--collective={kind}")
    assert said.code == 0 and said.err == ""
    assert sorted(row[1] for row in said.table[1:]) == sorted(rates)


# Of each recording its first half, and what is said of that.
CUT = {
    V6E: "it goes up to call 103 of /device:TPU:3",
    VLLM: "the gzip stream is cut: the file is not whole; it goes up to call 1 of /device:TPU:0",
    TENSORFLOW: "it ends within /host:CPU",
}


@pytest.mark.parametrize("name", CUT)
def test_half_a_file_is_said_to_go_up_to_a_call_of_a_device_once(name: str, tmp_path: Path) -> None:
    whole = _whole(name)
    half = tmp_path / whole.name
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    said = asked_here("trace", half)
    assert said.code == 1 and said.out == ""
    assert [CUT[name] in line for line in said.errors] == [True, False]


def _rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(_whole(VLLM).read_bytes()))[
        "traceEvents"
    ]
    return found


def _without(rows: Sequence[dict[str, Any]], begin: float, end: float) -> list[dict[str, Any]]:
    """Without what the second device did between two parts of its time."""
    times = sorted(float(row["ts"]) for row in rows if row.get("pid") == 4 and "ts" in row)
    from_us, to_us = times[int(begin * (len(times) - 1))], times[int(end * (len(times) - 1))]
    return [
        row
        for row in rows
        if row.get("pid") != 4 or not from_us < float(row.get("ts", from_us)) <= to_us
    ]


@pytest.mark.parametrize("part", [(0.3, 0.6), (0.5, 1.0), None])
def test_a_recording_that_lacks_events_is_cut_and_its_payload_device_and_call_are_said_once(
    part: tuple[float, float] | None, tmp_path: Path
) -> None:
    """Without a part of one device's time, or without the second half of all rows."""
    rows = _rows()
    kept = rows[: len(rows) // 2] if part is None else _without(rows, *part)
    reduces = [row["pid"] for row in kept if row.get("name", "").split(".")[0] in PSUM]
    assert reduces.count(4) < reduces.count(3)
    cut = tmp_path / "host.trace.json.gz"
    cut.write_bytes(gzip.compress(json.dumps({"traceEvents": kept}).encode()))
    said = asked_here("trace", cut, "--collective=all_reduce")
    assert (said.code, said.out) == (1, "")
    call = 850 if part is None else 1
    has = f"rank host/0 has {reduces.count(3)} collectives, rank host/1 {reduces.count(4)}"
    wanted = f"all_reduce of 10M, call {call} of jit_step_fun: {has}: the recording is cut"
    assert [wanted in line for line in said.errors] == [True, False]
    both = asked_here("trace", cut, "--collective=all_reduce,all_to_all")
    assert [line.count("cut") for line in both.errors] == [1, 0]


DATA = extract.DATA
BEFORE: Mapping[str, Any] = json.loads((DATA / "cpu_times.json").read_text())


@pytest.mark.parametrize("name", BEFORE)
def test_recordings_of_cpus_give_the_times_that_they_gave_before_devices_had_clocks(
    name: str,
) -> None:
    content = gzip.decompress((DATA / f"{name}.gz").read_bytes())
    trace: Trace
    if name.endswith(".json"):
        trace = read_chrome(gzip.compress(content), host="h", keep=WantedEvents())
    else:
        trace = read_xplane(content, host="h", keep=WantedEvents())
    found = iterations(collectives(trace), drop_first=False)
    assert [[one.index, dict(one.durations_s)] for one in found] == BEFORE[name]

"""Counts and times of real recordings: those that XProf says, in its tools' own words.

Recordings of CPUs are in `tests/unit/traces/data`; whole ones of TPUs are looked for in the folder
that BUSBW_RECORDINGS names.
"""

from __future__ import annotations

import gzip
import importlib
import json
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from busbw.traces.collectives import WantedEvents, collectives
from busbw.traces.event import Trace
from busbw.traces.xplane import read_xplane
from tests.unit.traces import extract

ON_CPUS = [extract.DATA / f"{name}_cpu.xplane.pb.gz" for name in ("jax", "tensorflow")]
V6E = extract.whole("tpu_v6e_xprof")

# By name, the durations of all events in microseconds.
Durations = Mapping[str, Sequence[float]]


def tool(path: Path, name: str) -> Any:
    """What this tool of XProf makes of a recording."""
    convert = importlib.import_module("xprof.convert.raw_to_tool_data")
    found, _ = convert.xspace_to_tool_data([str(path)], name, {})
    return json.loads(found)


def viewed(path: Path) -> Durations:
    """The events that the trace viewer shows."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in tool(path, "trace_viewer")["traceEvents"]:
        if row.get("ph") == "X":
            found[row["name"]].append(row["dur"])
    return found


def read(trace: Trace, theirs: Durations) -> Durations:
    """The same of ours: of a node of TensorFlow's the viewer shows the kind alone."""
    found: dict[str, list[float]] = defaultdict(list)
    for event in trace.events:
        kind = event.name.rpartition(":")[2]
        name = event.name if event.name in theirs else kind
        found[name].append(1e6 * event.duration_s)
    return found


@pytest.fixture(params=ON_CPUS, ids=lambda path: path.name.partition(".")[0])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file as a profiler wrote it."""
    path: Path = tmp_path / request.param.name.removesuffix(".gz")
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    return path


def test_every_event_is_there_as_often_and_takes_as_long(recording: Path) -> None:
    theirs = viewed(recording)
    ours = read(read_xplane(recording.read_bytes()), theirs)
    # The viewer has a region for the events with which one begins, ends and is counted.
    ends = {name for name in ours if name not in theirs}
    assert ends <= {"StartRegion", "StopRegion", "Record"}
    assert set(theirs) - set(ours) == ({"ThreadpoolListener::Region"} if ends else set())
    for name in set(ours) - ends:
        assert sorted(ours[name]) == pytest.approx(sorted(theirs[name]), abs=0.002), name


def test_every_collective_is_one_of_its_events_and_takes_no_longer(recording: Path) -> None:
    found = collectives(read_xplane(recording.read_bytes(), keep=WantedEvents()))
    shown = viewed(recording)
    names = {name for name in shown if name.startswith(("psum", "CollectiveReduce"))}
    expected = sorted(lasted_us for name in names for lasted_us in shown[name])
    assert len(found) == len(expected) > 10
    ours = sorted(1e6 * one.duration_s for one in found)
    # A node of TensorFlow's goes on after it has returned its values.
    assert all(one <= theirs + 0.002 for one, theirs in zip(ours, expected, strict=True))
    if "CollectiveReduceV2" not in names:
        assert ours == pytest.approx(expected, abs=0.002)


@pytest.mark.skipif(not V6E.is_file(), reason=f"{V6E} is not there")
def test_on_a_tpu_a_collective_is_counted_and_timed_as_in_the_statistics_of_instructions(
    tmp_path: Path,
) -> None:
    # It keeps what it has worked out beside a recording.
    path = Path(shutil.copy(V6E, tmp_path))
    table = tool(path, "hlo_stats")
    names = [column["id"] for column in table["cols"]]
    rows = [dict(zip(names, [one["v"] for one in row["c"]], strict=True)) for row in table["rows"]]
    (row,) = [row for row in rows if row["category"] == "all-reduce"]
    found = collectives(read_xplane(V6E.read_bytes(), keep=WantedEvents()))
    ours_us = [1e6 * one.duration_s for one in found if one.kind == "all_reduce"]
    assert len(ours_us) == row["occurrences"] > 10
    assert sum(ours_us) == pytest.approx(row["total_time"], rel=1e-9)

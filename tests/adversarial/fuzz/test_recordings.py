"""Recordings of both formats, as the command and a worker read them."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.collectives import COLLECTIVES
from busbw.commands.cells import Gathering, Labels
from busbw.model.words import MIB
from busbw.report.traces import RATES, trace_document, trace_lines
from busbw.worker import device_clock
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.framework import read_files
from tests.helpers.command_line import of_today
from tests.helpers.damage import bounded, contents, damaged, documents, fuzzed, unchanged
from tests.helpers.recordings import (
    Line,
    Made,
    Reference,
    complete,
    numbered,
    plane,
    process,
    sized,
    space,
)

TEXT = "%all-reduce.3 = f32[4,1024]{1,0:T(8,128)} all-reduce(f32[4,1024]{1,0} %x), to_apply=%add"


def _rows() -> dict[str, Any]:
    """Two devices, their calls, and TensorFlow's and XLA's collectives on the host."""
    rows: list[dict[str, Any]] = []
    for pid, name in ((1, "/device:TPU:0"), (2, "/device:TPU:1"), (3, "/host:CPU")):
        rows += process(pid, name, {1: "XLA Modules", 2: "XLA Ops"})
        for at in range(3):
            rows.append(complete(f"jit_f({at})", pid=pid, tid=1, ts=100 * at, dur=90))
            row = complete("all-reduce.3", pid=pid, tid=2, ts=100 * at + 9, dur=5)
            stats = {"long_name": TEXT, "run_id": str(at), "device_duration_ps": "1250000"}
            rows.append({**row, "args": stats})
    on_host = {"device_ordinal": "1", "hlo_op": "all-reduce.1"}
    rows.append(complete("all-reduce.1", pid=3, tid=2, ts=1, dur=2, **on_host))
    node = {"step_id": "1", "instance_key": "2", "long_name": "x_2:CollectiveReduceV2"}
    rows.append(complete("x_2:CollectiveReduceV2", pid=3, tid=2, ts=1, dur=2, **node))
    row = complete("ncclDevKernel_SendRecv()", pid=1, tid=2, ts=1, dur=2)
    rows.append({**row, "args": {"In msg nelems": 4, "Out msg nelems": 4, "dtype": "Float"}})
    return {"displayTimeUnit": "ns", "metadata": {"a": [1]}, "traceEvents": rows}


def _space() -> bytes:
    """The same kinds of events as an xplane file."""
    made = [
        Made(name=TEXT, shown="all-reduce.3", offset_ps=10**9 * at, duration_ps=10**8 + at)
        for at in range(3)
    ]
    stats: dict[str, str | int | float | Reference | bytes] = {
        "run_id": 1,
        "x": 0.5,
        "y": Reference(text="all-reduce"),
        "raw": b"\0",
    }
    started = [
        Made(name="all-reduce-start.1", offset_ps=5, duration_ps=7, stats=stats),
        Made(name="all-reduce-done.1", offset_ps=50, duration_ps=7, common={"hlo_category": "a"}),
        Made(name="jit_f(1)", duration_ps=10**9),
    ]
    ops = Line(name="XLA Ops", timestamp_ns=10**18, events=[*made, *started])
    host = [Made(name="x_2:CollectiveReduceV2", duration_ps=5, stats={"instance_key": 1})]
    return space(
        plane("/device:TPU:0", [ops]),
        plane("/device:TPU:1", [ops], metadata_last=True),
        plane("/host:CPU", [Line(name="pool/1", events=host)]),
        host="a",
    )


ROWS = _rows()
SPACE = _space()
REAL = of_today([[100.0, 120.0], [90.0, 130.0]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def _shown(path: Path) -> None:
    """The command's table and document of it, and a worker's reading, each or a problem."""
    gathering = Gathering(labels=Labels(payload_bytes=MIB), kinds=tuple(COLLECTIVES))
    with unchanged(path.parent), bounded():
        gathering.add(path.parent, {"a": [path]})
        cells = gathering.cells()
        assert cells or gathering.problems
        for rate in RATES:
            assert bool(cells) is bool(trace_lines(cells, rate=rate))
        problems, warnings = gathering.problems, gathering.warnings
        document = trace_document(cells, files=[], problems=problems, warnings=warnings, unknown=[])
        assert json.dumps(document, allow_nan=False)
        try:
            found = device_clock.read(partial(read_files, path.parent), "all_reduce")
            device_clock.times(found, ranks=2, calls=1, iterations=3)
        except MeasuringError as error:
            assert str(error)


def test_what_is_not_damaged_is_shown(tmp_path: Path) -> None:
    for name, content in (("a.xplane.pb", SPACE), ("a.trace.json.gz", PACKED)):
        path = tmp_path / name
        path.write_bytes(content)
        gathering = Gathering(labels=Labels(payload_bytes=MIB), kinds=["all_reduce"])
        gathering.add(tmp_path, {"a": [path]})
        assert gathering.cells()


@fuzzed
@given(content=contents(SPACE, REAL))
def test_any_xplane_file_is_shown_or_a_problem(content: bytes, folder: Path) -> None:
    path = folder / "a.xplane.pb"
    path.write_bytes(content)
    _shown(path)


@fuzzed
@given(
    fields=st.recursive(
        st.builds(numbered, st.integers(1, 12), st.integers(0, 2**64)),
        lambda inner: st.builds(
            lambda place, parts: sized(place, b"".join(parts)), st.integers(1, 12), st.lists(inner)
        ),
        max_leaves=30,
    )
)
def test_any_message_of_protobuf_is_shown_or_a_problem(fields: bytes, folder: Path) -> None:
    path = folder / "a.xplane.pb"
    path.write_bytes(sized(1, fields) + SPACE)
    _shown(path)


@fuzzed
@given(content=documents(ROWS, ROWS["traceEvents"]))
def test_any_trace_json_is_shown_or_a_problem(content: bytes, folder: Path) -> None:
    path = folder / "a.trace.json.gz"
    path.write_bytes(gzip.compress(content, 1, mtime=0))
    _shown(path)


PACKED = gzip.compress(json.dumps(ROWS).encode(), mtime=0)


@fuzzed
@given(content=contents(PACKED, damaged(PACKED, [("repeat", 0.0, 0, 40)]), PACKED + PACKED))
def test_any_gzip_of_a_trace_is_shown_or_a_problem(content: bytes, folder: Path) -> None:
    path = folder / "a.trace.json.gz"
    path.write_bytes(content)
    _shown(path)


LONG = (
    "=" * 50_000,
    "= f32[] a( )" * 10_000,
    "= " * 30_000 + "all-reduce(",
    "= a" + "1" * 60_000,
    "= f32[" + "9," * 30_000 + "] all-reduce(f32[" + "9," * 30_000 + "] %x), a=",
    "= f32[" + "9" * 30_000 + "] all-reduce(f32[" + "9" * 30_000 + "] %x), a=",
    "ncclAb" + "Cd" + "d" * 60_000,
    "all-reduce" + ".1" * 30_000 + "x",
    "a:" * 30_000 + "A" + "_1" * 20_000,
    "calls=" + " " * 60_000,
    ") " * 30_000,
)


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:12])
def test_a_long_text_takes_no_longer_than_it_takes_to_read_it(text: str, folder: Path) -> None:
    rows = process(1, f"TPU:{'9' * 5000}", {1: text})
    named = {"long_name": text, "device_ordinal": "9" * 5000, "hlo_op": text, "tf_op": text}
    for name in ("all-reduce.1", text, f"x_{'9' * 5000}:CollectiveReduceV2", "call-start.1"):
        rows.append(complete(name, pid=1, tid=1, ts=1, dur=2, **named))
    path = folder / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(rows).encode(), 1, mtime=0))
    _shown(path)


def test_many_nodes_of_one_step_take_no_longer_than_to_sort_them(folder: Path) -> None:
    rows = process(1, "/host:CPU", {1: "pool"})
    for number in range(20_000):
        name = f"x_{number}:CollectiveReduceV2"
        rows.append(complete(name, pid=1, tid=number, ts=1, dur=2, instance_key="1"))
    path = folder / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(rows).encode(), 1, mtime=0))
    _shown(path)

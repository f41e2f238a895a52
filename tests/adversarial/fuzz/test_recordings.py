"""Damaged recordings in JSON, as `busbw trace` reads them without JAX."""

from __future__ import annotations

import gzip
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from busbw.collectives import COLLECTIVES
from busbw.extensions.profiles.command import bandwidth_cells, bandwidth_tables
from busbw.model.words import MIB
from tests.helpers.damage import bounded, contents, damaged, documents, fuzzed
from tests.helpers.recordings import complete, process

TEXT = "%all-reduce.3 = f32[4,1024]{1,0:T(8,128)} all-reduce(f32[4,1024]{1,0} %x), to_apply=%add"


def _rows() -> dict[str, Any]:
    """Two devices, their calls, and TensorFlow's and XLA's collectives on the host."""
    rows: list[dict[str, Any]] = []
    for pid, name in ((1, "/device:TPU:0"), (2, "/device:TPU:1"), (3, "/host:CPU")):
        rows += process(pid, name, {1: "XLA Modules", 2: "XLA Ops"})
        for step in range(3):
            rows.append(complete(f"jit_f({step})", pid=pid, tid=1, ts=100 * step, dur=90))
            row = complete("all-reduce.3", pid=pid, tid=2, ts=100 * step + 9, dur=5)
            stats = {
                "long_name": TEXT,
                "run_id": str(step),
                "device_offset_ps": f"{step}000000000",
                "device_duration_ps": "1250000",
            }
            rows.append({**row, "args": stats})
    on_host = {"device_ordinal": "1", "hlo_op": "all-reduce.1"}
    rows.append(complete("all-reduce.1", pid=3, tid=2, ts=1, dur=2, **on_host))
    node = {"step_id": "1", "instance_key": "2", "long_name": "x_2:CollectiveReduceV2"}
    rows.append(complete("x_2:CollectiveReduceV2", pid=3, tid=2, ts=1, dur=2, **node))
    row = complete("ncclDevKernel_SendRecv()", pid=1, tid=2, ts=1, dur=2)
    rows.append({**row, "args": {"In msg nelems": 4, "Out msg nelems": 4, "dtype": "Float"}})
    return {"displayTimeUnit": "ns", "metadata": {"a": [1]}, "traceEvents": rows}


ROWS = _rows()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def _show(folder: Path, content: bytes) -> None:
    """Read a recording for the command: it gives figures or problems."""
    path = folder / "a.trace.json.gz"
    path.write_bytes(content)
    options = Namespace(
        collective=tuple(COLLECTIVES),
        partial=True,
        payload=MIB,
        payload_from=None,
        size_limit=2**28,
        slice_from=None,
    )
    problems: list[str] = []
    with bounded():
        figures = bandwidth_cells({path.parent: {"a": path}}, options, problems)
        assert figures or problems
        assert bool(figures) is bool([*bandwidth_tables(figures)])
        assert json.dumps(figures, allow_nan=False)


@fuzzed
@given(content=documents(ROWS, ROWS["traceEvents"]))
def test_any_json_recording_gives_bandwidths_or_a_reported_problem(
    content: bytes, folder: Path
) -> None:
    _show(folder, gzip.compress(content, 1, mtime=0))


PACKED = gzip.compress(json.dumps(ROWS).encode(), mtime=0)


@fuzzed
@given(content=contents(PACKED, damaged(PACKED, [("repeat", 0.0, 0, 40)]), PACKED + PACKED))
def test_any_gzip_recording_gives_bandwidths_or_a_reported_problem(
    content: bytes, folder: Path
) -> None:
    _show(folder, content)


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
def test_a_recording_with_a_very_long_text_is_read_within_five_seconds(
    text: str, folder: Path
) -> None:
    rows = process(1, f"TPU:{'9' * 5000}", {1: text})
    named = {"long_name": text, "device_ordinal": "9" * 5000, "hlo_op": text, "tf_op": text}
    for name in ("all-reduce.1", text, f"x_{'9' * 5000}:CollectiveReduceV2", "call-start.1"):
        rows.append(complete(name, pid=1, tid=1, ts=1, dur=2, **named))
    _show(folder, gzip.compress(json.dumps(rows).encode(), 1, mtime=0))


def test_a_recording_with_ten_thousand_nodes_in_one_step_is_read_within_five_seconds(
    folder: Path,
) -> None:
    rows = process(1, "/host:CPU", {1: "collective_ops"})
    for number in range(10_000):
        name = f"x_{number}:CollectiveReduceV2"
        rows.append(complete(name, pid=1, tid=1, ts=1, dur=2, instance_key="1"))
    _show(folder, gzip.compress(json.dumps(rows).encode(), 1, mtime=0))

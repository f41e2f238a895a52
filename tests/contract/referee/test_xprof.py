"""Collectives of real recordings as `busbw trace` counts and times them, against XProf's own tools.

Recordings of CPUs are among the tests; a whole one of TPUs is looked for in the folder that
BUSBW_RECORDINGS names.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import ROOT
from tests.helpers.frameworks import needs

pytestmark = needs("jax")

DATA = ROOT / "tests" / "unit" / "extensions" / "profiles" / "data"
V6E = "tpu-xprof-inference2-old/plugins/profile/run/tpu_inference_2.xplane.pb"
RECORDED = Path(os.environ.get("BUSBW_RECORDINGS", "missing")) / V6E
_READ = """
import json, pathlib, sys
from busbw.extensions.profiles.recordings import find_collectives, read_events
found = find_collectives(read_events(pathlib.Path(sys.argv[1]), 2**28), "")
print(json.dumps([1e6 * one.duration_s for one in found if one.kind == "all_reduce"]))
"""


def tool(path: Path, name: str) -> Any:
    """Return the document that a tool of XProf makes of a recording."""
    convert = importlib.import_module("xprof.convert.raw_to_tool_data")
    text, _ = convert.xspace_to_tool_data([str(path)], name, {})
    return json.loads(text)


def durations_us(path: Path) -> list[float]:
    """Return the durations of all-reduces as `busbw trace` reads them, in another process."""
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(path)], capture_output=True, check=True, cwd=ROOT
    )
    durations: list[float] = json.loads(done.stdout)
    return durations


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_the_xprof_viewer_has_each_collective_of_a_cpu_recording_with_the_same_duration(
    framework: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{framework}.xplane.pb"
    path.write_bytes(gzip.decompress((DATA / f"{framework}_cpu.xplane.pb.gz").read_bytes()))
    expected = sorted(
        row["dur"]
        for row in tool(path, "trace_viewer")["traceEvents"]
        if row.get("ph") == "X" and row["name"].startswith(("psum", "CollectiveReduce"))
    )
    durations = sorted(durations_us(path))
    assert len(durations) == len(expected) > 10
    # A node of TensorFlow's goes on after it has returned its values.
    pairs = zip(durations, expected, strict=True)
    assert all(duration_us <= event_us + 0.002 for duration_us, event_us in pairs)
    if framework == "jax":
        assert durations == pytest.approx(expected, abs=0.002)


@pytest.mark.skipif(not RECORDED.is_file(), reason=f"{RECORDED} is not there")
def test_all_reduces_of_a_tpu_recording_have_the_count_and_total_time_that_xprof_reports(
    tmp_path: Path,
) -> None:
    # XProf keeps what it has calculated beside a recording.
    path = Path(shutil.copy(RECORDED, tmp_path))
    table = tool(path, "hlo_stats")
    names = [column["id"] for column in table["cols"]]
    rows = [
        dict(zip(names, [cell["v"] for cell in row["c"]], strict=True)) for row in table["rows"]
    ]
    (row,) = [row for row in rows if row["category"] == "all-reduce"]
    durations = durations_us(path)
    assert len(durations) == row["occurrences"] > 10
    assert sum(durations) == pytest.approx(row["total_time"], rel=1e-9)

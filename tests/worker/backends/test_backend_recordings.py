"""The readers that JAX and TensorFlow bring along, held against ours, on real recordings.

Each reads in a process of its own: pytest imports no framework.
"""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from busbw.traces.collectives import Overlap, WantedEvents, collectives, is_work_or_wanted
from busbw.worker.backends.base import Reader
from busbw.worker.backends.framework import read_files
from tests.sweep import sweep
from tests.traces import extract
from tests.worker.backends import real

RECORDINGS = ("jax_cpu", "tensorflow_cpu")
FRAMEWORKS = sweep(
    pytest.param(name, marks=real.needs(name), id=name) for name in ("jax", "tensorflow")
)

_READ = """
from functools import partial
from pathlib import Path
_, framework, folder = sys.argv
real.prepare(framework, None)
import importlib
reader = importlib.import_module(f"busbw.worker.backends.{framework}.backend")
from busbw.worker.backends import framework
framework.read_files = reader.read_files = None
from tests.worker.backends.test_backend_recordings import described
say(described(partial(reader.read_recordings, Path(folder))))
"""


def described(reader: Reader) -> str:
    """The collectives of a recording, with what their ranks did beside them, as JSON.

    Begins count from the first, for each reader has its own zero, and durations in the
    picoseconds that stand in the file.
    """
    rows = []
    for trace in reader(is_work_or_wanted):
        beside = Overlap(trace)
        found = collectives(trace)
        first_s = min((one.start_s for one in found), default=0.0)
        for one in found:
            hidden_s = beside.hidden_s(one)
            hidden_ns = None if hidden_s is None else round(hidden_s * 1e9)
            begin_ns = round((one.start_s - first_s) * 1e9)
            named = (one.kind, one.name, one.rank, one.program, one.call, *one.track)
            sized = (one.payload_bytes, one.groups and [one.groups.groups, one.groups.size])
            rows.append([*named, *sized, begin_ns, round(one.duration_s * 1e12), hidden_ns])
    return json.dumps(rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of both frameworks on the CPU, and of TPUs where the whole file is there."""
    found = tmp_path_factory.mktemp("recordings")
    for name in RECORDINGS:
        content = gzip.decompress((extract.DATA / f"{name}.xplane.pb.gz").read_bytes())
        (found / f"{name}.xplane.pb").write_bytes(content)
    whole = extract.whole("tpu_v6e_xprof")
    if whole.is_file():
        (found / whole.name).symlink_to(whole)
    return found


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_s_own_reader_sees_what_ours_sees(framework: str, folder: Path) -> None:
    ours = described(partial(read_files, folder))
    rows = json.loads(ours)
    assert {row[2].partition(".")[0] for row in rows} >= set(RECORDINGS)
    (theirs,) = real.said(_READ, framework, str(folder))
    assert json.loads(theirs) == rows


def test_ours_is_the_reader_where_a_framework_brings_none(folder: Path) -> None:
    assert [len(collectives(trace)) for trace in read_files(folder, WantedEvents())][:2] == [24, 24]

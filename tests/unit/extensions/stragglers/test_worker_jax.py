"""The program that has every link of a torus, as the compiler for TPUs leaves it; and on a CPU."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import ANY

import pytest

from busbw.collectives.base import source_target_pairs_of
from tests.helpers import frameworks as real
from tests.unit.extensions.compiled.test_user_programs_jax import _programs

pytestmark = [real.needs("jax")]

ROOT = Path(__file__).parents[4]
STEP = """
from busbw.extensions.stragglers import worker_jax

def step(devices):
    return worker_jax.lower_permutes(devices)
"""

# The extents of each torus, the devices of a chip, and along which axes it is closed.
TORI = {
    "v5e:4x4": ((4, 4, 1), 1, ()),
    "v5p:2x2x4": ((2, 2, 4), 1, (2,)),
    "v5p:4x4x4": ((4, 4, 4), 1, (0, 1, 2)),
    "tpu7x:4x4x4": ((4, 4, 4), 2, (0, 1, 2)),
}


def _links(extents: tuple[int, ...], closed: tuple[int, ...]) -> int:
    """Return the number of links in a torus of chips, counted in each direction."""
    chips, links = 1, 0
    for extent in extents:
        chips *= extent
    for axis, extent in enumerate(extents):
        pairs = extent if axis in closed and extent > 2 else extent - 1
        links += 2 * pairs * chips // extent
    return links


@pytest.mark.exhaustive
@real.needs("libtpu")
@pytest.mark.parametrize("topology", TORI)
def test_the_program_that_measures_links_uses_each_link_of_a_torus_once_in_each_direction(
    tmp_path: Path, topology: str
) -> None:
    extents, cores, closed = TORI[topology]
    (tmp_path / "links.py").write_text(STEP)
    _programs({"links": f"{tmp_path}/links.py:step"}, topology, tmp_path / "cache")
    (stored,) = (tmp_path / "cache").rglob("*.json.gz")
    text = json.loads(gzip.decompress(stored.read_bytes()))["text"]
    lines = [line for line in text.splitlines() if " collective-permute" in line]
    pairs = [
        pair
        for line in lines
        if "-done(" not in line
        for pair in source_target_pairs_of(line) or ()
    ]
    chips = extents[0] * extents[1] * extents[2]
    inner_links = 2 * chips if cores == 2 else 0
    assert len(pairs) == len(set(pairs)) == _links(extents, closed) * cores + inner_links
    assert {(b, a) for a, b in pairs} == set(pairs)


_MEASURED = """
import contextlib, json, jax
from functools import partial
from types import SimpleNamespace
from busbw.model.words import DeviceClass
from busbw.extensions.stragglers import worker_jax
from busbw.worker.backends.jax import backend, versions

jax.config.update("jax_num_cpu_devices", 4)

@contextlib.contextmanager
def record_profile(folder):
    with versions.run_profiler(folder, DeviceClass.CPU):
        yield partial(backend.read_collectives, folder)

# Only the links of TPUs are timed.
for device in (DeviceClass.CPU, DeviceClass.TPU):
    stand_in = SimpleNamespace(
        devices=lambda: jax.devices("cpu"), device=device, record_profile=record_profile
    )
    request = {"rounds": 5, "payload_bytes": 4096}
    chips = worker_jax.measure_chips(SimpleNamespace(backend=stand_in), request)
    print(json.dumps(chips))
print(json.dumps(worker_jax.measure_directions(SimpleNamespace(backend=stand_in), request)))
"""


@pytest.mark.exhaustive
def test_the_measurement_of_chips_has_a_time_for_each_chip_and_link_in_each_repetition() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED],
        cwd=ROOT,
        # As a worker on a CPU: libtpu, which one process has at a time, records nothing for others.
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    without_links, chips, directions = map(json.loads, done.stdout.splitlines()[-3:])
    assert directions == {"sending": {"0 1": [ANY], "1 0": [ANY]}}
    assert list(without_links) == ["computing", "copying"]
    assert {quantity: list(rows) for quantity, rows in chips.items()} == {
        "computing": ["0", "1", "2", "3"],
        "copying": ["0", "1", "2", "3"],
        "the link x+": ["0 1", "1 2", "2 3"],
        "the link x-": ["1 0", "2 1", "3 2"],
    }
    for rows in chips.values():
        assert all(len(row) == 5 and min(row) > 0 for row in rows.values())

"""A fault that is planted into the result of a JAX program is found with its place."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import frameworks as real

pytestmark = [real.needs("jax")]

ROOT = Path(__file__).parents[4]


def _soak(fault: str, collective: str, *numbers: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield the text on the wrong result, and what was planted, for each number."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.unit.extensions.soak.planted",
            fault,
            collective,
            *map(str, numbers),
        ],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            reply = json.loads(line)
            yield reply["problem"], reply["planted"][0]


@pytest.mark.parametrize(
    ("fault", "collective"),
    [
        ("flip", "all_reduce"),
        pytest.param("flip", "all_gather", marks=pytest.mark.exhaustive),
        pytest.param("stale", "all_reduce", marks=pytest.mark.exhaustive),
        pytest.param("stale", "reduce_scatter", marks=pytest.mark.exhaustive),
    ],
)
def test_a_soak_names_the_rank_and_element_and_bit_of_a_fault_planted_into_a_result(
    fault: str, collective: str
) -> None:
    results = list(_soak(fault, collective, 40, 900))
    assert len(results) == 2
    for number, (problem, (rank, element, bit)) in zip((40, 900), results):
        assert problem.startswith(f"iteration {number}: rank {rank} (")
        assert element is None or f"), element {element}: " in problem
        assert bit is None or f" (wrong bits: {bit}); " in problem
        assert problem.endswith(" a wrong result in 0 of 10 retries")


_HASH_CODE = """
import jax, numpy
from busbw.extensions.soak.worker_jax import hash_words
for seed, dtype in enumerate(("float32", "bfloat16")):
    values = jax.random.normal(jax.random.key(seed), (1000,), dtype)
    words = numpy.asarray(values).view(f"uint{8 * values.dtype.itemsize}").astype("uint32")
    mixed = words ^ numpy.arange(words.size, dtype="uint32") * numpy.uint32(0x9E3779B1)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ mixed >> shift) * numpy.uint32(factor)
    assert int(hash_words(values)) == int(mixed.sum()) % 2**32
"""


def test_the_hash_that_a_device_computes_of_its_result_is_the_sum_of_its_mixed_words() -> None:
    subprocess.run([sys.executable, "-c", _HASH_CODE], check=True, cwd=ROOT, timeout=600)

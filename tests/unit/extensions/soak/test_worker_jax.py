"""A fault planted into the result of a real program: found in its round, with what it changed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw.extensions.soak.worker import WrongElement
from tests.helpers import frameworks as real

pytestmark = [real.needs("jax")]

ROOT = Path(__file__).parents[4]
MODULE = "tests.unit.extensions.soak.planted"
# How many are planted of the fault that an issue of a chip is most like, one in 10,000 rounds.
FLIPS, ROUNDS = 50, 10_000


def _soak(fault: str, collective: str, *numbers: int) -> Iterator[tuple[WrongElement, list[Any]]]:
    """Yield the wrong element that was found, and what was planted, for each number."""
    done = subprocess.run(
        [sys.executable, "-m", MODULE, fault, collective, *map(str, numbers)],
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
            yield WrongElement(**reply["mismatch"]), reply["planted"][0]


@pytest.mark.parametrize(
    ("fault", "collective"),
    [
        ("flip", "all_reduce"),
        pytest.param("flip", "all_gather", marks=pytest.mark.exhaustive),
        pytest.param("stale", "all_reduce", marks=pytest.mark.exhaustive),
        pytest.param("swap", "permute", marks=pytest.mark.exhaustive),
        pytest.param("swap", "reduce_scatter", marks=pytest.mark.exhaustive),
        pytest.param("miss", "all_reduce", marks=pytest.mark.exhaustive),
        pytest.param("early", "all_to_all", marks=pytest.mark.exhaustive),
    ],
)
def test_it_is_found_in_the_round_in_which_it_was_planted(fault: str, collective: str) -> None:
    mismatches = list(_soak(fault, collective, 40, 900))
    assert len(mismatches) == 2
    for mismatch, (rank, element, bit) in mismatches:
        assert mismatch.rank == rank
        assert element in (None, mismatch.element)
        assert bit is None or mismatch.bits == (bit,)
        # The fault is planted once, so that the error does not come again.
        assert mismatch.repeats == 0


@pytest.mark.slow
@pytest.mark.exhaustive
def test_one_flipped_bit_in_ten_thousand_rounds_is_found_every_time() -> None:
    chance = random.Random(0)
    numbers = [chance.randrange(50, ROUNDS) for _ in range(FLIPS)]
    mismatches = list(_soak("flip", "all_reduce", *numbers))
    assert len(mismatches) == FLIPS
    for mismatch, (rank, element, bit) in mismatches:
        assert (mismatch.rank, mismatch.element, mismatch.bits) == (rank, element, (bit,))

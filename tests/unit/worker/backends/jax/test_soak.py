"""A fault planted into the result of a real program: found in its round, with what it changed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw.model.soak import Wrong
from tests.helpers import frameworks as real

pytestmark = [real.needs("jax")]

ROOT = Path(__file__).parents[5]
MODULE = "tests.unit.worker.backends.jax.planted"
# How many are planted of the fault that an issue of a chip is most like, one in 10,000 rounds.
FLIPS, ROUNDS = 50, 10_000


def _found(fault: str, collective: str, *numbers: int) -> list[tuple[Wrong | None, list[Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", MODULE, fault, collective, *map(str, numbers)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [(Wrong(**one["found"]) if one["found"] else None, one["planted"][0]) for one in answers]


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
    for wrong, (rank, element, bit) in _found(fault, collective, 40, 900):
        assert wrong is not None
        assert wrong.rank == rank
        assert element in (None, wrong.element)
        assert bit is None or wrong.bits == (bit,)
        # Once, so that it does not come again.
        assert wrong.again == 0


@pytest.mark.slow
@pytest.mark.exhaustive
def test_one_flipped_bit_in_ten_thousand_rounds_is_found_every_time() -> None:
    chance = random.Random(0)
    numbers = [chance.randrange(50, ROUNDS) for _ in range(FLIPS)]
    for number, (wrong, (rank, element, bit)) in zip(
        numbers, _found("flip", "all_reduce", *numbers)
    ):
        assert wrong is not None, number
        assert (wrong.rank, wrong.element, wrong.bits) == (rank, element, (bit,))

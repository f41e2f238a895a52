"""The variants between the bare chain and the step, for real on two CPU ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.backends.real import needs

pytestmark = [needs("jax"), pytest.mark.exhaustive]

ROOT = Path(__file__).parents[2]

# Every kind of round, right and wrong; an error's words stand on a line of their own.
_ROUNDS = """
from bench.opened import opened
backend, cases = opened("jax", 2, ["64K"])
import jax
from bench.variants import PIECES, AroundProgram
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.jax.backend import mesh_of
(case,) = cases.values()
mesh = mesh_of(case, jax.devices("cpu"))
for piece in PIECES:
    program = AroundProgram(case, mesh, piece)
    for rounds in (3, 5):
        program.run(rounds)
        print(program.proof.collectives, program.check(rounds))
    try:
        program.check(4)
    except MeasuringError as error:
        print(error)
"""


def _ran(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_round_holds_one_all_reduce_whose_last_sum_is_known(tmp_path: Path) -> None:
    script = tmp_path / "rounds.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{_ROUNDS}")
    lines = _ran(str(script))
    right = ["{'all-reduce': 1} 2"] * 2
    wrong = "5 rounds and sums [10. 10.], expected 4 rounds"
    assert lines == [*right, wrong] * 3


def test_a_process_gives_each_variant_s_time_of_each_turn() -> None:
    lines = _ran("-m", "bench.step", "--ranks=2", "--payloads=64K")
    found = json.loads(lines[-1])["64K"]
    assert set(found) == {"bare", "fresh", "touched", "product", "step"}
    assert all(len(times_s) == 3 and min(times_s) > 0 for times_s in found.values())

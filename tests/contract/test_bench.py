"""`python -m bench`: the commands that reproduce published figures run and print their tables."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.contract.docs.pages import ROOT
from tests.helpers.frameworks import needs


def _bench(*arguments: str) -> list[str]:
    """Run a benchmark that must succeed; return the lines of its output that are not empty."""
    command = [sys.executable, "-m", "bench", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return [line for line in ended.stdout.splitlines() if line]


@pytest.mark.exhaustive
@needs("jax")
def test_the_fidelity_benchmark_compares_each_payload_with_a_loop_written_by_hand() -> None:
    lines = _bench("fidelity", "--processes=1", "--payloads=64K", "--frameworks=jax")
    assert [lines[0], lines[4]] == [f"### jax, {ranks} ranks, 1 processes" for ranks in (2, 4)]
    assert re.match(r"\| 64K \| [0-9.]+ \| [0-9.]+ \(", lines[3])
    assert len(lines) == 8


def test_the_error_rates_benchmark_prints_a_table_row_for_simulated_sessions() -> None:
    heads, _, row = _bench("error_rates", "rates", "--only=unchanged, 3 cases", "--devices=8")
    assert heads == "| regime | shares in % (95 %) | wanted, % |"
    assert row.startswith("| unchanged, 3 cases: red | mean ")

"""The benchmark of the time of a session, divided into phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import processes, sweep

# Each of a dozen rows is rounded to a tenth of a second.
_ROUNDED_S = 12 * 0.05


@pytest.mark.exhaustive
@pytest.mark.sessions
def test_the_sweep_benchmark_measures_a_session_whose_phases_sum_to_the_wall_time(
    tmp_path: Path,
) -> None:
    words = ("--frameworks=fake", "--payloads=1K,4K", "--launches=1")
    results = processes.run_session(tmp_path, "sweep", *words)
    lines = list(sweep.phase_table(words, results))
    rows = [line.strip("|").split(" | ") for line in lines if "%" in line]
    sum_s = sum(float(seconds) for _, seconds, _ in rows)
    assert sum_s == pytest.approx(results["wall_s"], abs=_ROUNDED_S)
    assert lines[1] == f"### `pytest perf/ {' '.join(words)}`"
    assert lines[3] == "2 cases, 1 launches: measured in "

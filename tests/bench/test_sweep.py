"""Where a session's time goes: read from a real one, with the fake back end."""

from __future__ import annotations

from typing import Any

import pytest

from bench import sweep

# Each of a dozen rows is rounded to a tenth of a second.
_ROUNDED_S = 12 * 0.05


def _rows_s(results: dict[str, Any], wall_s: float) -> float:
    """What the rows of the table come to."""
    lines = sweep.split("`pytest perf/`", results, wall_s)
    rows = [line.strip("|").split(" | ") for line in lines if line.endswith(" % |")]
    return sum(float(seconds) for _, seconds, _ in rows)


@pytest.mark.sessions
def test_a_session_is_measured_and_its_phases_come_to_its_wall_time() -> None:
    options = ("--frameworks=fake", "--payloads=1K,4K", "--launches=1")
    results, wall_s = sweep.measured(options)
    lines = list(sweep.split("`pytest perf/`", results, wall_s))
    assert lines[1] == "### `pytest perf/`"
    assert lines[3] == "2 cases, 1 launches: measured in "
    assert _rows_s(results, wall_s) == pytest.approx(wall_s, abs=_ROUNDED_S)


def test_no_phase_is_left_out() -> None:
    launch = {"phases_s": {"sampling": 20.0, "waiting": 30.0, "of_another_name": 10.0}}
    results = {
        "cases": [{"launches": [launch]}],
        "plan": {"launches": 1},
        "spent_s": {"starting": 5.0, "measuring": 61.0, "ending": 1.0},
        "measuring_s": 68.0,
    }
    assert _rows_s(results, 70.0) == pytest.approx(70.0, abs=_ROUNDED_S)

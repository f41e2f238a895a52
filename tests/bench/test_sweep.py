"""Where a session's time goes: read from a real one, with the fake back end."""

from __future__ import annotations

import pytest

from bench import sweep


@pytest.mark.sessions
def test_a_session_is_measured_and_its_phases_come_to_its_wall_time() -> None:
    options = ("--frameworks=fake", "--payloads=1K,4K", "--launches=1")
    found = sweep.measured(options)
    lines = list(sweep.lines("`pytest perf/`", found))
    assert lines[1] == "### `pytest perf/`"
    assert lines[3] == "2 cases, 1 launches: measured in "
    rows = [line.strip("|").split(" | ") for line in lines if line.endswith(" % |")]
    assert sum(float(seconds) for _, seconds, _ in rows) == pytest.approx(found["wall_s"], abs=0.5)

"""All tables of a session: verdicts first, what an interrupt left, baselines before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from busbw.judge.curve import Curve
from busbw.model.case import Case
from busbw.model.verdict import Summary
from busbw.report.renderers import rendered
from busbw.report.session import CurveGroup, change_tables, measured_table, session_tables
from tests import build


def change_lines(changes: Sequence[Any]) -> list[str]:
    """As a terminal shows them."""
    return rendered("text", *change_tables(changes))


def measured_lines(found: Sequence[tuple[Case, Summary]], launches: int) -> list[str]:
    """As a terminal shows them."""
    return rendered("text", measured_table(found, launches))


def test_verdicts_come_before_steps_and_these_before_curves() -> None:
    step = build.verdict(spec=build.spec(step="dense"), case=build.case(step="dense"))
    curve = Curve(latency_s=1e-5, bandwidth_bytes_per_s=1e9, rms_log_error=0.0)
    tables = session_tables([step], {}, [CurveGroup(name="jax", now=curve)])
    assert [table.columns[-1].id for table in tables] == ["outcome", "overlap_fraction", "curve"]


def test_a_session_without_verdicts_has_no_tables() -> None:
    assert session_tables([], {}) == []


def test_an_interrupted_session_says_what_it_has_measured() -> None:
    (line,) = measured_lines([(build.case(), build.summary())], launches=5)
    assert line.startswith("jax.all_reduce.psum.float32.4K ")
    assert line.endswith("1 ms  algbw 4 GB/s, busbw 6 GB/s  (3 of 5 launches)")


def test_an_interrupt_before_anything_was_measured_says_that() -> None:
    assert measured_lines([], launches=3) == ["nothing was measured before the interrupt"]


def test_changed_baselines_are_listed_by_file_before_and_after() -> None:
    case = build.case(payload_bytes=2**20)
    lines = change_lines(
        [
            ("a.json", case, None, build.baseline(1e-3, 2e-3, 3e-3), "NO_BASELINE"),
            ("a.json", case, build.baseline(1e-3), build.baseline(), ""),
            ("b.json", case, build.baseline(), build.baseline(1e-3), ""),
        ]
    )
    assert [line for line in lines if line.startswith("baselines")] == [
        "baselines written: a.json",
        "baselines written: b.json",
    ]
    assert (
        "none -> 2 ms (0.7864 GB/s busbw, 3 launches of 1 session, pinned 2 ms)  NO_BASELINE"
        in lines[2]
    )
    assert "float32 1M" in lines[2]
    assert (
        "1 ms (1.573 GB/s busbw, 1 launch of 1 session, pinned 1 ms) -> out of memory" in lines[3]
    )
    assert "out of memory -> 1 ms" in lines[-1]


def test_a_changed_baseline_of_two_launches_shows_the_median_of_both() -> None:
    lines = change_lines([("a.json", build.case(), None, build.baseline(1e-3, 2e-3), "PASS")])
    assert "none -> 1.5 ms" in lines[-1]


def test_no_changed_baselines_are_no_lines() -> None:
    assert change_lines([]) == []

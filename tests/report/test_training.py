"""Training steps side by side with their collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw.model.case import Spec
from busbw.model.launch import Measurement
from busbw.model.verdict import Verdict
from busbw.report.renderers import rendered
from busbw.report.session import step_tables
from tests import build

from .lines import verdict_lines

STEP = build.spec(step="dense")


def _step(**changes: object) -> Verdict:
    case = build.case(step="dense", protocol="host/dense-step-16-rows/hugepages")
    return replace(build.verdict(spec=STEP, case=case), **changes)  # type: ignore[arg-type]


def _cells(line: str) -> list[str]:
    return line.split()


def step_lines(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[str]:
    """As a terminal shows them."""
    return rendered("text", *step_tables(verdicts, measured))


def test_without_steps_there_are_no_lines() -> None:
    assert step_lines([build.verdict()], {}) == []


def test_a_step_has_its_all_reduce_alone_beside_it_whatever_program_timed_that() -> None:
    alone = build.verdict(now=build.summary(median_s=2.5e-4))
    _, heading, _, _, row, *_ = step_lines([_step(), alone], {})
    assert heading == "jax all_reduce (psum), in a dense step, 4 ranks:"
    assert _cells(row) == ["4K", "1", "ms", "250", "us", "25"]


def test_that_of_another_payload_is_none() -> None:
    other = build.verdict(case=build.case(payload_bytes=8192))
    row = step_lines([_step(), other], {})[4]
    assert _cells(row) == ["4K", "1", "ms"]


def test_inside_is_the_median_over_launches_of_the_last_and_of_the_first_rank() -> None:
    runs = tuple(
        build.run(over_ranks_s={"slowest": 5e-4 * n, "mean": 4e-4, "fastest": 1e-4 * n})
        for n in (1, 2, 3)
    )
    measured = {STEP: Measurement(case=build.case(step="dense"), runs=runs)}
    row = step_lines([_step()], measured)[4]
    assert _cells(row) == ["4K", "1", "ms", "200", "us", "1", "ms"]


def test_hidden_is_the_median_over_the_launches_that_know_it() -> None:
    inside = {"slowest": 1e-3, "mean": 4e-4, "fastest": 2e-4}
    runs = tuple(
        build.run(over_ranks_s=inside, overlap_fraction=share) for share in (0.25, None, 0.0, 1.0)
    )
    measured = {STEP: Measurement(case=build.case(step="dense"), runs=runs)}
    row = step_lines([_step()], measured)[4]
    assert _cells(row) == ["4K", "1", "ms", "200", "us", "1", "ms", "25"]


def test_a_step_that_gave_no_time_has_no_line() -> None:
    assert step_lines([_step(now=None)], {}) == []


def test_the_table_shows_no_rates_of_a_step() -> None:
    lines = verdict_lines([_step()])
    assert lines[1].text.endswith(", time of a whole dense step")
    assert _cells(lines[4].text) == ["4K", "1000.0", "-10+10", "PASS"]

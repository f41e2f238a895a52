"""The heat map of a machine: rows, ratios, gaps, changes and what is said of them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from busbw import nights
from busbw.history.files import Read
from busbw.history.lines import Line
from busbw.model.stored import StoredCase
from busbw.model.words import FailureKind, Outcome
from busbw.report.chart import Gap, Heatmap, table_of
from busbw.report.charts.history import ratios
from busbw.report.nights import MachineNights
from tests import build
from tests.history.lines import line
from tests.history.year import FOLDER, LIBTPU, year


@pytest.fixture(scope="module")
def heatmap() -> Heatmap:
    found = ratios(nights.machine(FOLDER, Read(lines=tuple(year()))))
    return found


def _machine(*lines: Line) -> MachineNights:
    return nights.machine("tpu/4r", Read(lines=lines))


def test_a_night_that_was_made_slower_on_purpose_is_drawn_as_that() -> None:
    nights_of = [
        line(session=f"{night:016x}", at=f"2026-01-0{night + 1}T03:00:00Z") for night in range(3)
    ]
    slowed = replace(nights_of[2], injected="delay:200%", times_us=(30.0,))
    found = ratios(_machine(*nights_of[:2], slowed))
    assert found.rows[0].cells == (1.0, 1.0, Gap.INJECTED)
    assert "injected in 1 night" in found.description


def test_frameworks_are_groups_of_one_heat_map_with_a_row_for_each_payload(
    heatmap: Heatmap,
) -> None:
    assert [row.label for row in heatmap.rows[:21]] == [row.label for row in heatmap.rows[21:]]
    assert list(dict.fromkeys(row.group for row in heatmap.rows)) == [
        "jax all_reduce (psum)",
        "tensorflow all_reduce (tpu)",
    ]
    assert heatmap.rows[0].label == "1K" and heatmap.rows[20].label == "1024M"
    assert heatmap.edges == (0.03, 0.06, 0.12, 0.25)


def test_a_ratio_is_that_to_the_first_nights(heatmap: Heatmap) -> None:
    first = heatmap.rows[0].cells
    (mark,) = heatmap.rows[0].marks
    assert mark.column == LIBTPU - 4
    assert mark.text.startswith("+8.1 % since 2026-03-04 (268 nights); changed there: libtpu 0.0.")
    ratios_after = [one for one in first[mark.column :] if not isinstance(one, Gap)]
    assert min(ratios_after) > 1.05


def test_what_changed_is_said_to_who_does_not_see_it(heatmap: Heatmap) -> None:
    assert "1024M OUT_OF_MEMORY in 114 nights" in heatmap.description
    assert "256K -12 % since 2026-09-27" in heatmap.description
    assert "OUT_OF_MEMORY" in table_of(heatmap).cells(table_of(heatmap).rows[20])


def test_gaps_say_why_there_is_no_ratio() -> None:
    second = {"session": "f" * 16, "at": "2026-02-01T03:00:00Z"}
    other = StoredCase.of(build.case(payload_bytes=1 << 20))
    lost = line(times_us=(), outcome=Outcome.OUT_OF_MEMORY, case=other, **second)
    found = ratios(_machine(line(), line(outcome=Outcome.FAILED, **second), lost))
    assert [row.cells for row in found.rows] == [
        (1.0, Gap.FAILED),
        (Gap.MISSING, Gap.OUT_OF_MEMORY),
    ]


def test_a_case_that_only_ran_out_of_memory_has_a_row() -> None:
    lost = line(times_us=(), outcome=Outcome.OUT_OF_MEMORY, failure=FailureKind.OUT_OF_MEMORY)
    found = ratios(_machine(lost))
    assert [row.cells for row in found.rows] == [(Gap.OUT_OF_MEMORY,)]


def test_a_machine_with_more_noise_has_wider_bins() -> None:
    draw = random.Random(1)
    lines = [
        line(
            session=f"{at:016x}",
            at=f"2026-03-{1 + at:02d}T03:00:00Z",
            times_us=(10 * math.exp(draw.gauss(0, 0.05)),),
        )
        for at in range(31)
    ]
    found = ratios(_machine(*lines))
    assert found.edges == (0.12, 0.25, 0.5, 1.0)


def test_protocols_and_series_are_apart() -> None:
    other = StoredCase.of(build.case(protocol="host/chain2/hugepages"))
    stack = {"paired": True, "stack": "a" * 16}
    found = ratios(_machine(line(), line(case=other), line(**stack)))
    assert [row.group for row in found.rows] == [
        "jax all_reduce (psum), host/chain2",
        "jax all_reduce (psum), host/chain2/hugepages",
        f"jax all_reduce (psum), jax in turn with the reference {'a' * 16}",
    ]


def test_many_cases_are_one_picture() -> None:
    lines = [
        line(case=StoredCase.of(build.case(collective=name, payload_bytes=1024 << power)))
        for name in ("all_reduce", "all_gather", "reduce_scatter", "permute")
        for power in range(21)
    ]
    assert len(ratios(_machine(*lines)).rows) == 84


def test_of_more_than_a_year_the_newest_nights_are_shown() -> None:
    lines = [
        line(
            session=f"{at:016x}",
            at=f"{2024 + at // 336}-{1 + at // 28 % 12:02d}-{1 + at % 28:02d}T03:00:00Z",
        )
        for at in range(500)
    ]
    found = ratios(_machine(*lines))
    assert len(found.columns) == 400 == len(found.rows[0].cells)
    assert "the newest 400 nights of 500" in found.subtitle

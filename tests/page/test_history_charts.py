"""Charts of nights: the history of a case, and the heat map of a machine."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw.history.files import Read
from busbw.history.lines import Line
from busbw.model.words import FailureKind, Outcome
from busbw.page import nights
from busbw.page.chart import Chart, Gap, Heatmap, Scale, table_of
from busbw.page.history_charts import case_history, ratios
from busbw.page.nights import MachineNights
from busbw.page.pictures import png, svg
from tests import build
from tests.history.lines import line
from tests.history.year import FOLDER, LIBTPU, MEMORY, year

HOSTILE = "<script>alert(1)</script>\"'&\x00\u202e datum.x " + "y" * 300


@pytest.fixture(scope="module")
def machine() -> MachineNights:
    return nights.machine(FOLDER, Read(lines=tuple(year())))


def _chart(machine: MachineNights, name: str) -> Chart:
    (case,) = [one for one in machine.cases if one.case.name == name]
    return case_history(machine, case)


def _of(*lines: Line) -> Chart:
    machine = _machine(*lines)
    return case_history(machine, machine.cases[0])


def test_launches_of_many_nights_are_a_band_and_each_level_a_line(machine: MachineNights) -> None:
    chart = _chart(machine, "jax.all_reduce.psum.float32.1K")
    (launches,), (level,) = chart.bands, chart.series
    assert len(launches.points) == len(machine.nights)
    assert all(low < high for _, low, high in launches.points)
    values = [y for _, y in level.points]
    assert values[0] == values[1] < values[2] == values[3] == pytest.approx(21.6, rel=0.01)
    assert (chart.y.unit, chart.y.scale) == ("us", Scale.LINEAR)


def test_a_change_is_marked_with_its_date_and_versions_are_rules(machine: MachineNights) -> None:
    chart = _chart(machine, "jax.all_reduce.psum.float32.1K")
    assert [one.label for one in chart.marks] == ["+8.1 % since 2026-03-04"]
    assert chart.rules[0].label == "libtpu 0.0.34 -> 0.0.35"
    assert len(chart.rules) == 7
    assert "changed there: libtpu 0.0.34 -> 0.0.35" in chart.description
    assert any("host tpu-vm-7 -> tpu-vm-9: 2026-05-" in one for one in table_of(chart).notes)


def test_nights_out_of_memory_are_at_the_edge_and_labelled_once(machine: MachineNights) -> None:
    chart = _chart(machine, "jax.all_reduce.psum.float32.1024M")
    assert {one.label for one in chart.marks} == {"OUT_OF_MEMORY"}
    assert len(chart.marks) == len(machine.nights) - (MEMORY - 7)
    assert f"OUT_OF_MEMORY in {len(chart.marks)} nights" in chart.description


def test_a_case_that_never_had_a_time_says_why() -> None:
    lost: dict[str, Any] = {"times_us": (), "outcome": Outcome.OUT_OF_MEMORY}
    lines = [
        line(session=f"{at:016x}", at=f"2026-01-{at:02d}T03:00:00Z", **lost) for at in range(1, 6)
    ]
    chart = _of(*lines)
    assert [one.label for one in chart.marks] == ["OUT_OF_MEMORY"] * 5


def test_the_table_has_all_launches_of_a_night_in_a_cell() -> None:
    table = table_of(_of(line()))
    assert [table.cells(row) for row in table.rows] == [
        ["2026-01-31T03:00:00Z", "11.25, 11.5, 11.38", "11.38"]
    ]


def test_a_failed_night_is_marked_and_keeps_its_times() -> None:
    chart = _of(line(outcome=Outcome.FAILED))
    assert [one.label for one in chart.marks] == ["FAILED"]
    (row,) = table_of(chart).rows
    assert [note.text for note in row.notes] == ["FAILED"]


@pytest.mark.parametrize(
    ("time_us", "unit", "value"),
    [(12.5, "us", 12.5), (999.0, "us", 999.0), (1500.0, "ms", 1.5), (2e6, "s", 2.0)],
)
def test_times_have_the_unit_that_reads_best(time_us: float, unit: str, value: float) -> None:
    chart = _of(line(times_us=(time_us,)))
    assert chart.y.unit == unit
    assert chart.series[0].points[0][1] == pytest.approx(value)


def test_times_far_from_each_other_are_on_a_logarithmic_axis() -> None:
    assert _of(line(times_us=(10.0, 60.0))).y.scale is Scale.LOG10


def test_where_versions_change_every_night_only_those_of_changes_are_rules() -> None:
    lines = [
        line(
            session=f"{at:016x}",
            at=f"2026-03-{1 + at:02d}T03:00:00Z",
            versions={"jax": f"0.10.0.dev{at}"},
            times_us=(10.0 * (1.0 + at % 3 / 1000) * (1.5 if at >= 20 else 1.0),),
        )
        for at in range(30)
    ]
    chart = _of(*lines)
    assert [one.label for one in chart.rules] == ["jax 0.10.0.dev19 -> 0.10.0.dev20"]
    assert "versions changed in 28 other nights" in chart.subtitle


def test_one_night_is_a_chart_and_a_case_without_any_is_an_error() -> None:
    chart = _of(line())
    assert len(chart.series[0].points) == 3 and len(chart.series[1].points) == 1
    with pytest.raises(ValueError, match="there is no night"):
        _of(line(injected="delay:5%"))


@pytest.fixture
def _drawn() -> None:
    pytest.importorskip("vl_convert")


@pytest.mark.usefixtures("_drawn")
@pytest.mark.parametrize("width", [400, 720])
@pytest.mark.parametrize("payload", ["1K", "64M", "1024M"])
def test_a_year_of_a_case_takes_less_than_40_kb(
    machine: MachineNights, width: int, payload: str
) -> None:
    chart = _chart(machine, f"jax.all_reduce.psum.float32.{payload}")
    text = svg(chart, width)
    assert len(text) < 40_000


@pytest.mark.usefixtures("_drawn")
@pytest.mark.parametrize(
    "lines",
    [
        [line()],
        [line(times_us=(), outcome=Outcome.OUT_OF_MEMORY)],
        [line(), line(session="f" * 16, at="2027-01-31T03:00:00Z")],
        [line(), line(session="f" * 16, at="2026-01-31T03:00:01Z", times_us=(400.0,))],
    ],
    ids=["one night", "never a time", "a gap of a year", "a second later"],
)
def test_few_nights_are_drawn(lines: list[Line]) -> None:
    root = Tree.fromstring(svg(_of(*lines), 400))
    assert not any(re.search("NaN|Infinity|undefined", value) for one in root.iter()
                   for value in one.attrib.values())  # fmt: skip


@pytest.mark.usefixtures("_drawn")
def test_hostile_versions_and_hosts_add_no_element() -> None:
    nasty: dict[str, Any] = {"versions": {HOSTILE: HOSTILE}, "host": HOSTILE}
    chart = _of(
        line(versions={HOSTILE: "1"}), line(session="f" * 16, at="2026-03-31T03:00:00Z", **nasty)
    )
    assert HOSTILE in chart.rules[0].label
    tags = {one.tag.rpartition("}")[2] for one in Tree.fromstring(svg(chart)).iter()}
    assert tags <= {"svg", "title", "desc", "style", "g", "path", "text", "tspan", "line", "rect"}
    assert png(chart, scale=1).startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def heatmap(machine: MachineNights) -> Heatmap:
    return ratios(machine)


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
    other = build.case(payload_bytes=1 << 20)
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
    other = build.case(protocol="host/chain2/hugepages")
    stack = {"paired": True, "stack": "a" * 16}
    found = ratios(_machine(line(), line(case=other), line(**stack)))
    assert [row.group for row in found.rows] == [
        "jax all_reduce (psum), host/chain2",
        "jax all_reduce (psum), host/chain2/hugepages",
        f"jax all_reduce (psum), jax in turn with the reference {'a' * 16}",
    ]


def test_many_cases_are_one_picture() -> None:
    lines = [
        line(case=build.case(collective=name, payload_bytes=1024 << power))
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

"""The history of a case as a chart: launches, levels, changes, versions and gaps."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw import nights
from busbw.history.files import Read
from busbw.history.lines import Line
from busbw.model.words import Outcome
from busbw.report.chart import Chart, Scale, Series, table_of
from busbw.report.charts.history import case_history
from busbw.report.drawing import specification
from busbw.report.drawing.layout import Size
from busbw.report.nights import MachineNights
from busbw.report.pictures import png, svg
from tests.history.lines import line
from tests.history.year import FOLDER, MEMORY, year

HOSTILE = "<script>alert(1)</script>\"'&\x00\u202e datum.x " + "y" * 300


@pytest.fixture(scope="module")
def machine() -> MachineNights:
    return nights.machine(FOLDER, Read(lines=tuple(year())))


def _chart(machine: MachineNights, name: str) -> Chart:
    (case,) = [one for one in machine.cases if one.case.name == name]
    return case_history(machine, case)


def _of(*lines: Line) -> Chart:
    machine = nights.machine("tpu/4r", Read(lines=lines))
    return case_history(machine, machine.cases[0])


def _series(chart: Chart) -> tuple[Series, Series]:
    launches, level = chart.series
    return launches, level


def test_every_launch_is_a_dot_and_each_level_a_line(machine: MachineNights) -> None:
    chart = _chart(machine, "jax.all_reduce.psum.float32.1K")
    launches, level = _series(chart)
    assert len(launches.points) == 3 * len(machine.nights)
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
    texts = _labels(chart, Size())
    assert texts.count("OUT_OF_MEMORY") == 1
    assert f"OUT_OF_MEMORY in {len(chart.marks)} nights" in chart.description


def _labels(chart: Chart, size: Size) -> list[str]:
    """What is written at marks and rules, each once."""
    return [
        row["label"]
        for one in specification(chart, size)["layer"]
        if one["mark"]["type"] == "text" and "stroke" not in one["mark"]
        for row in one["data"]["values"]
    ]


def test_a_case_that_never_had_a_time_says_why() -> None:
    lost: dict[str, Any] = {"times_us": (), "outcome": Outcome.OUT_OF_MEMORY}
    lines = [
        line(session=f"{at:016x}", at=f"2026-01-{at:02d}T03:00:00Z", **lost) for at in range(1, 6)
    ]
    assert _labels(_of(*lines), Size(width=400)) == ["OUT_OF_MEMORY"]


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
    text = svg(chart, Size(width=width))
    assert len(text) < 40_000
    root = Tree.fromstring(text)
    assert root.get("width") == str(width)
    dots = [one for one in root.iter() if one.get("stroke-linecap") == "round"]
    assert max(one.attrib["d"].count("h0") for one in dots) == len(chart.series[0].points)


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
    root = Tree.fromstring(svg(_of(*lines), Size(width=400)))
    assert not any(re.search("NaN|Infinity|undefined", value) for one in root.iter()
                   for value in one.attrib.values())  # fmt: skip


@pytest.mark.usefixtures("_drawn")
def test_hostile_versions_and_hosts_add_no_element() -> None:
    nasty: dict[str, Any] = {"versions": {HOSTILE: HOSTILE}, "host": HOSTILE}
    chart = _of(
        line(versions={HOSTILE: "1"}), line(session="f" * 16, at="2026-03-31T03:00:00Z", **nasty)
    )
    assert HOSTILE in chart.rules[0].label
    tags = {one.tag.rpartition("}")[2] for one in Tree.fromstring(svg(chart, Size())).iter()}
    assert tags <= {"svg", "title", "desc", "style", "g", "path", "text", "tspan", "line", "rect"}
    assert png(chart, Size(), scale=1).startswith(b"\x89PNG")

"""Sparklines: small, broken where there is no time, with a dot at each change, hidden."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Tree

import pytest

from busbw import nights
from busbw.history.files import Read
from busbw.history.lines import Line
from busbw.model.words import Outcome
from busbw.report.drawing.palette import LIGHT
from busbw.report.nights import CaseNights, MachineNights
from busbw.report.page.html import sparkline
from busbw.report.pictures import style_sheet
from tests.history.lines import line
from tests.history.year import FOLDER, year


@pytest.fixture(scope="module")
def machine() -> MachineNights:
    return nights.machine(FOLDER, Read(lines=tuple(year())))


def _cases(*lines: Line) -> tuple[CaseNights, ...]:
    return nights.machine("tpu/4r", Read(lines=lines)).cases


def _later(number: int, **changes: object) -> Line:
    return line(session=f"{number:016x}", at=f"2026-03-{number:02d}T03:00:00Z", **changes)


def _paths(text: str) -> list[str]:
    return [one.attrib["d"] for one in Tree.fromstring(text) if one.tag == "path"]


def test_a_year_takes_less_than_a_kilobyte_and_a_page_of_42_little(machine: MachineNights) -> None:
    sizes = [len(sparkline(one)) for one in machine.cases]
    assert 300 < max(sizes) < 1000


def test_it_is_hidden_and_has_the_colours_of_charts(machine: MachineNights) -> None:
    root = Tree.fromstring(sparkline(machine.cases[0]))
    assert (root.get("aria-hidden"), root.get("class")) == ("true", "busbw-chart")
    for one in root:
        role = one.attrib["class"].removeprefix("stroke-")
        assert one.get("stroke") == LIGHT.roles[role]
        assert f".{one.attrib['class']}{{" in style_sheet()


def test_a_change_is_a_dot_on_the_new_level_and_slower_is_higher(machine: MachineNights) -> None:
    line_path, dots = _paths(sparkline(machine.cases[0]))
    assert dots.count("h0") == 1
    _, y = map(int, re.findall(r"\d+", dots)[:2])
    first_y = int(re.findall(r"-?\d+", line_path)[1])
    assert y < first_y


def test_it_stays_within_its_box(machine: MachineNights) -> None:
    for one in machine.cases:
        for path in _paths(sparkline(one)):
            x = y = 0
            for name, numbers in re.findall(r"([Mlh])([^Mlh]*)", path):
                for pair in numbers.split(" ") if name != "h" else ():
                    dx, dy = map(int, pair.split(","))
                    x, y = (dx, dy) if name == "M" else (x + dx, y + dy)
                    assert 0 < x < 240 and 0 < y < 48


def test_noise_is_a_level_line() -> None:
    lines = [_later(at, times_us=(10.0 + at % 2 / 20,)) for at in range(1, 29)]
    (path,) = _paths(sparkline(_cases(*lines)[0]))
    ys = [int(pair.split(",")[1]) for pair in path.partition("l")[2].split(" ")]
    assert max(map(abs, ys)) <= 3


def test_nights_without_a_time_break_the_line() -> None:
    lost = {"times_us": (), "outcome": Outcome.OUT_OF_MEMORY}
    (path,) = _paths(sparkline(_cases(_later(1), _later(2), _later(3, **lost), _later(4))[0]))
    assert path.count("M") == 2 and path.endswith("h0")


def test_one_night_is_a_point_and_none_is_nothing() -> None:
    (path,) = _paths(sparkline(_cases(line())[0]))
    assert re.fullmatch(r"M120,\d+h0", path)
    assert sparkline(_cases(line(times_us=(), outcome=Outcome.OUT_OF_MEMORY))[0]) == ""

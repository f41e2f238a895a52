"""What a page says of the nights of a machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw import nights
from busbw.history.files import Read
from busbw.history.lines import Line
from busbw.model.stored import StoredCase
from busbw.model.words import Outcome
from busbw.report.nights import MachineNights
from busbw.report.page import page
from busbw.report.page.content import Figure, Gallery, Points, Text, Trends
from busbw.report.page.history import machine_sections
from busbw.report.page.html import html
from tests import build
from tests.history.lines import line
from tests.history.year import FOLDER, year
from tests.report.written import session, verdict

from .read import read
from .test_html import ACTIVE, HOSTILE


@pytest.fixture(scope="module")
def machine() -> MachineNights:
    """A year with planted changes."""
    return nights.machine(FOLDER, Read(lines=tuple(year())))


def _of(*lines: Line) -> MachineNights:
    return nights.machine("tpu/4r", Read(lines=lines))


def _said(machine: MachineNights) -> str:
    """The words of the overview."""
    (found,) = machine_sections([machine])
    words = []
    for one in found.parts:
        words += [one.title, *one.points] if isinstance(one, Points) else []
        words += [one.text] if isinstance(one, Text) else []
    return "\n".join(words)


def _gallery(machine: MachineNights) -> tuple[Figure, ...]:
    (found,) = machine_sections([machine])
    changed, _ = found.sections
    return next((one.figures for one in changed.parts if isinstance(one, Gallery)), ())


def _nights(count: int, **changes: Any) -> list[Line]:
    return [
        line(session=f"{night:016x}", at=f"2026-01-{night + 1:02}T03:00:00Z", **changes)
        for night in range(count)
    ]


def test_every_planted_change_is_said_once_with_what_changed_there(machine: MachineNights) -> None:
    said = _said(machine)
    assert said.count("since 2026-03-04: jax.all_reduce.psum.float32.1K") == 1
    assert "take 1.080 to 1.081 x the time they took before; changed there: libtpu 0.0.34" in said
    assert said.count("changed there: tensorflow 2.19.1 -> 2.20.0") == 1
    assert "since 2026-08-08: jax.all_reduce.psum.float32.1024M: OUT_OF_MEMORY" in said
    assert "357 nights from 2025-12-01 to 2026-11-30: 349 FINE, 8 SLOWER." in said


def test_what_changed_has_a_chart_each_and_no_change_is_crowded_out(machine: MachineNights) -> None:
    titles = [one.picture.title for one in _gallery(machine)]
    assert len(titles) == 12 == len(set(titles))
    assert "1024M" in titles[0]
    first = " ".join(titles[1:4])
    assert "tensorflow all_reduce (tpu), 256K" in first or "512K" in first
    assert "jax" in first and "tensorflow all_reduce (tpu), 512M" in first
    (found,) = machine_sections([machine])
    last = found.sections[0].parts[-1]
    assert isinstance(last, Text) and last.text.startswith("9 cases more changed")


def test_every_case_has_a_line_and_a_heat_map_all_of_them(machine: MachineNights) -> None:
    (found,) = machine_sections([machine])
    (trends,) = found.sections[1].parts
    assert isinstance(trends, Trends)
    assert len(trends.table.rows) == len(trends.cases) == 42
    (heatmap,) = (one for one in found.parts if isinstance(one, Figure))
    assert "over that of the first 20 nights" in heatmap.picture.title


def test_a_quiet_history_says_that_nothing_changed() -> None:
    machine = _of(*_nights(5))
    assert "No level of a case changed." in _said(machine)
    assert "5 nights from 2026-01-01 to 2026-01-05: 5 FINE." in _said(machine)
    assert _gallery(machine) == ()


def test_one_night_is_a_history() -> None:
    machine = _of(line())
    assert "1 night from 2026-01-31 to 2026-01-31" in _said(machine)


@pytest.mark.parametrize("outcome", [Outcome.OUT_OF_MEMORY, Outcome.FAILED])
def test_a_case_without_a_time_any_more_is_named_with_the_night(outcome: Outcome) -> None:
    *before, last = _nights(5)
    machine = _of(*before, replace(last, outcome=outcome, times_us=()))
    name = machine.cases[0].case.name
    assert f"since 2026-01-05: {name}: {outcome.value}" in _said(machine)
    assert len(_gallery(machine)) == 1


def test_a_case_that_never_had_a_time_or_has_one_again_is_not_lost() -> None:
    first, second, *others = _nights(5)
    again = _of(first, replace(second, outcome=Outcome.FAILED, times_us=()), *others)
    never = _of(*(replace(one, outcome=Outcome.FAILED, times_us=()) for one in _nights(5)))
    assert "without a time" not in _said(again) + _said(never)


def test_machines_have_a_section_each_and_the_page_of_one_has_its_name(
    machine: MachineNights,
) -> None:
    assert page([], [machine]).title == f"History of {FOLDER}"
    two = page([], [machine, _of(line())])
    assert two.title == "2 machines" or two.title == "History of 2 machines"
    assert [one.heading for one in two.sections] == [f"History of {FOLDER}", "History of tpu/4r"]


def test_the_history_comes_below_what_changed_tonight(machine: MachineNights) -> None:
    found = page([session(verdict(4096, 6.0))], [machine])
    shown = [one.heading for one in found.sections if not one.is_empty]
    assert shown == ["What changed", "Bandwidth", "History", "Spread", "Cases"]


def test_hostile_names_of_a_history_do_no_harm() -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    case = StoredCase.of(build.case())
    before = _nights(8, case=case, host=HOSTILE, versions={"jax": HOSTILE})
    after = [
        replace(
            one,
            session=f"{night + 20:016x}",
            at=f"2026-02-{night + 1:02}T03:00:00Z",
            times_us=(30.0, 30.1, 30.2),
            versions={"jax": f"2{HOSTILE}"},
            flags={"XLA_FLAGS": HOSTILE},
        )
        for night, one in enumerate(before)
    ]
    machine = _of(*before, *after)
    assert machine.cases[0].changes
    found = read(html(page([], [machine])))
    assert not found.all(*ACTIVE)
    assert not [name for one in found.all() for name in one.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.whole_text


def test_a_sparkline_is_no_picture_for_screen_readers(machine: MachineNights) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    found = read(html(page([], [_of(*_nights(5))])))
    cells = [one for one in found.all("td") if one.all("svg")]
    assert cells and all(one.all("svg")[0].attributes["aria-hidden"] == "true" for one in cells)

"""A year as values of charts: its levels, what changed, and the sparklines of its cases."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Tree

import pytest

from busbw.history.files import HistoryError
from busbw.history.levels import machine_history
from busbw.page import nights
from busbw.page.html import sparkline
from busbw.page.nights import CaseNights, MachineNights
from busbw.page.palette import LIGHT, several
from busbw.page.pictures import style_sheet
from tests.unit.history.year import FASTER, FOLDER, LIBTPU, PLANTED, TENSORFLOW, write, year
from tests.unit.page import made

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine() -> MachineNights:
    return made.year_of_nights()


def _case(machine: MachineNights, name: str) -> CaseNights:
    (found,) = [one for one in machine.cases if one.case.name == name]
    return found


def test_every_planted_change_is_found_where_it_is_and_nothing_else(machine: MachineNights) -> None:
    found = {
        (one.case.framework, one.case.payload_bytes, f"{change.began:%Y-%m-%d}"): change.ratio
        for one in machine.cases
        for change in one.changes
    }
    wanted = {
        (one.case.framework, one.case.payload_bytes, f"{planted.at:%Y-%m-%d}"): planted.ratio
        for planted in PLANTED
        for one in machine.cases
        if planted.ratio is not None and planted.is_of(one.case)
    }
    assert found == pytest.approx(wanted, rel=0.005)
    assert not machine.shared


def test_a_page_has_the_figures_of_the_terminal(machine: MachineNights) -> None:
    found = machine_history(FOLDER, tuple(year()))
    changed = [one for one in found.cases if one.changes]
    assert changed
    for one in changed:
        ours = _case(machine, one.case.name)
        assert ours.levels[-1].level_s == one.level_s
        ratios = {c.began: c.log_ratio for c in (*one.changes, *found.shared.get(one.series, ()))}
        assert {c.began: c.log_ratio for c in ours.changes} == pytest.approx(ratios)


def test_changes_of_the_stack_are_those_of_each_series(machine: MachineNights) -> None:
    changes = _case(machine, "tensorflow.all_reduce.tpu.float32.1K").stack_changes
    texts = {text for those in changes.values() for text in those}
    assert texts >= {"tensorflow 2.19.1 -> 2.20.0", "host tpu-vm-7 -> tpu-vm-9"}
    assert not any("jax" in text for text in texts)
    at = {f"{machine.nights[one].began:%Y-%m-%d}" for one in changes}
    assert at >= {f"{one.at:%Y-%m-%d}" for one in PLANTED if one.night in (TENSORFLOW, FASTER)}


def test_a_change_says_why_it_is_accepted(tmp_path: Path) -> None:
    write(tmp_path / "history", LIBTPU + 20)
    (tmp_path / "acknowledged.toml").write_text(
        '[[change]]\nsince = 2026-03-04\ncase = "jax.*.1K"\nreason = "<b>known</b>"\n'
    )
    (found,) = nights.machines(tmp_path / "history", tmp_path)
    (change,) = _case(found, "jax.all_reduce.psum.float32.1K").changes
    assert (change.changes, change.reason) == (("libtpu 0.0.34 -> 0.0.35",), "<b>known</b>")
    (other,) = _case(found, "jax.all_reduce.psum.float32.2K").changes
    assert other.reason == "" and found.folder == FOLDER
    assert nights.machines(tmp_path / "history", tmp_path, ["another/4r"]) == ()


def test_a_history_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="there is no folder"):
        nights.machines(tmp_path / "none", tmp_path)
    (tmp_path / "history").mkdir()
    assert nights.machines(tmp_path / "history", tmp_path) == ()


def test_a_sparkline_is_small_has_colours_of_charts_and_stays_within_its_box(
    machine: MachineNights,
) -> None:
    texts = [sparkline(one) for one in machine.cases]
    assert 300 < max(map(len, texts)) < 1000
    for path in (path for text in texts for path in Tree.fromstring(text)):
        assert path.attrib["stroke"] in several(LIGHT, "series")
        assert f'[stroke="{path.attrib["stroke"]}"]' in style_sheet()
        x = y = 0
        for name, numbers in re.findall(r"([Ml])([^Mlh]*)", path.attrib["d"]):
            for pair in numbers.split(" "):
                dx, dy = map(int, pair.split(","))
                x, y = (dx, dy) if name == "M" else (x + dx, y + dy)
                assert 0 < x < 240 and 0 < y < 48

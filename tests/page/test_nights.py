"""A history as values of charts: nights, launches, levels of measured times, and what changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.history.files import HistoryError, Read
from busbw.history.levels import machine_history
from busbw.history.lines import Line
from busbw.model.words import FailureKind, Outcome
from busbw.page import nights
from busbw.page.nights import CaseNights, MachineNights
from tests import build
from tests.history.lines import line
from tests.history.year import FASTER, FOLDER, LIBTPU, MEMORY, PLANTED, TENSORFLOW, write, year

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine() -> MachineNights:
    return nights.machine(FOLDER, Read(lines=tuple(year())))


def _case(machine: MachineNights, name: str) -> CaseNights:
    (found,) = [one for one in machine.cases if one.case.name == name]
    return found


def _machine(*lines: Line) -> MachineNights:
    return nights.machine("tpu/4r", Read(lines=lines))


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


def test_a_page_has_the_figures_of_the_terminal(machine: MachineNights) -> None:
    found = machine_history(FOLDER, tuple(year()))
    changed = [one for one in found.cases if one.changes]
    assert changed
    for one in changed:
        ours = _case(machine, one.case.name)
        assert ours.levels[-1].level_s == one.level_s
        shared = found.shared.get(one.series, ())
        ratios = {c.began: c.log_ratio for c in (*one.changes, *shared)}
        assert {c.began: c.log_ratio for c in ours.changes} == pytest.approx(ratios)


def test_a_change_says_what_changed_there_and_why_it_is_accepted(tmp_path: Path) -> None:
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


def test_levels_lie_on_the_times_as_they_were_measured(machine: MachineNights) -> None:
    one = _case(machine, "jax.all_reduce.psum.float32.1K")
    before, after = one.levels
    assert (before.first, before.last + 1, after.last) == (0, after.first, len(machine.nights) - 1)
    assert after.level_s == pytest.approx(1.08 * before.level_s, rel=0.005)
    assert before.nights + after.nights == len(one.times_s)
    assert one.first_s == pytest.approx(before.level_s, rel=0.005)


def test_what_half_of_the_cases_did_is_no_change_of_the_others(machine: MachineNights) -> None:
    assert not any(one.shared for one in machine.series)
    assert _case(machine, "tensorflow.all_reduce.tpu.float32.1K").changes == ()


def test_a_case_out_of_memory_has_nights_without_times(machine: MachineNights) -> None:
    one = _case(machine, "jax.all_reduce.psum.float32.1024M")
    *_, last = one.nights
    assert last is not None
    assert (last.time_s, last.outcome) == (None, Outcome.OUT_OF_MEMORY)
    assert one.levels[-1].last < len(one.times_s) == MEMORY - 7


def test_changes_of_the_stack_are_those_of_each_series(machine: MachineNights) -> None:
    jax, tensorflow = machine.series
    texts = {text for one in tensorflow.stack_changes for text in one.changes}
    assert "tensorflow 2.19.1 -> 2.20.0" in texts and "host tpu-vm-7 -> tpu-vm-9" in texts
    assert not any("jax" in text for text in texts)
    at = {f"{machine.nights[one.night].began:%Y-%m-%d}" for one in tensorflow.stack_changes}
    assert {f"{one.at:%Y-%m-%d}" for one in PLANTED if one.night in (TENSORFLOW, FASTER)} <= at
    assert machine.series_of(jax.cases[0]) is jax


def test_one_night_of_one_case_is_a_history() -> None:
    found = _machine(line())
    assert [one.session for one in found.nights] == [line().session]
    (one,) = found.cases
    assert one.times_s == {0: pytest.approx(11.375e-6)}
    assert (one.nights[0] and one.nights[0].times_s) == pytest.approx(
        (11.25e-6, 11.5e-6, 11.375e-6)
    )
    assert [level.level_s for level in one.levels] == pytest.approx([11.375e-6])
    assert one.changes == ()


def test_a_case_that_appears_late_has_no_nights_before() -> None:
    late = build.case(payload_bytes=1 << 20)
    second = {"session": "f" * 16, "at": "2026-02-01T03:00:00Z"}
    found = _machine(line(), line(**second), line(case=late, **second))
    assert [one is None for one in found.cases[1].nights] == [True, False]
    assert found.cases[1].first_s == found.cases[1].newest_s


_LOST: Any = {"times_us": (), "outcome": Outcome.OUT_OF_MEMORY}


def test_of_a_case_that_never_had_a_time_only_outcomes_are_known() -> None:
    (one,) = _machine(line(failure=FailureKind.OUT_OF_MEMORY, **_LOST)).cases
    assert (one.levels, one.first_s, one.newest_s, one.level_s) == ((), None, None, None)
    assert [night and night.outcome for night in one.nights] == [Outcome.OUT_OF_MEMORY]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"injected": "delay:200%"}, None),
        ({"paired": True}, None),
        ({"times_us": (), "outcome": Outcome.SKIPPED}, None),
        ({"times_us": (), "outcome": Outcome.FAILED}, Outcome.FAILED),
        ({"outcome": Outcome.FAILED, "failure": FailureKind.CRASHED}, Outcome.FAILED),
        (
            {
                "times_us": (),
                "outcome": Outcome.NO_BASELINE,
                "failure": FailureKind.CRASHED,
                "stack": "a" * 16,
                "is_reference": True,
            },
            Outcome.FAILED,
        ),
    ],
)
def test_what_a_night_says_of_a_case(changes: dict[str, Any], outcome: Outcome | None) -> None:
    found = _machine(line(), line(session="f" * 16, at="2026-02-01T03:00:00Z", **changes))
    last = [one.nights[-1] for one in found.cases if one.nights[-1] is not None]
    assert [one.outcome for one in last] == ([] if outcome is None else [outcome])


def test_nights_in_turn_with_a_reference_are_series_of_their_own() -> None:
    stack = {"paired": True, "stack": "a" * 16}
    found = _machine(line(), line(**stack), line(is_reference=True, **stack))
    assert [(one.name, one.in_turn) for one in found.series] == [
        ("jax", False),
        (f"jax in turn with the reference {'a' * 16}", True),
        (f"the reference {'a' * 16} of jax", True),
    ]


def test_sessions_of_the_reference_alone_are_nights_too() -> None:
    lines = [
        replace(one, session=f"{at:016x}", stack="a" * 16, is_reference=True)
        for at, one in enumerate([line(), line(at="2026-02-01T03:00:00Z")])
    ]
    assert len(_machine(*lines).nights) == 2


def test_a_history_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="there is no folder"):
        nights.machines(tmp_path / "none", tmp_path)
    (tmp_path / "history").mkdir()
    assert nights.machines(tmp_path / "history", tmp_path) == ()

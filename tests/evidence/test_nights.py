"""Simulated nights, judged as the product judges them: few of them, for what must never fail."""

from __future__ import annotations

import math

import pytest

from busbw.model import Outcome, SessionOutcome
from evidence import nights
from evidence.quiet import CASES, Noise, QuietDevice, no_loss
from evidence.trials import Trials

pytestmark = pytest.mark.exhaustive

QUIET = Noise(launch=0.005, session=0.005)


def test_the_same_seed_draws_the_same_nights() -> None:
    one, other = (QuietDevice(QUIET, "a") for _ in range(2))
    for device in (one, other):
        device.quiet_nights(3)
    assert one.night().verdict == other.night().verdict


def test_a_loss_of_a_tenth_in_one_case_is_flagged_and_only_there() -> None:
    device = QuietDevice(QUIET, "b")
    device.quiet_nights(5)
    slow = CASES[30]
    found = device.night(lambda night, case: math.log(1.1) if case == slow else 0.0)
    assert found.regressed == [slow] and found.is_red
    assert found.verdict.outcome is SessionOutcome.FINE and found.verdict.failed_cases == 1


def test_unchanged_code_is_fine_and_says_what_would_have_been_flagged() -> None:
    device = QuietDevice(QUIET, "c")
    device.quiet_nights(5)
    found = device.night(no_loss)
    assert not found.is_red and "would have been flagged" in found.verdict.text
    assert {one.verdict.outcome for one in found.rulings.values()} <= {
        Outcome.PASS,
        Outcome.IMPROVED,
    }


def test_a_loss_counts_from_its_own_night_on() -> None:
    device = QuietDevice(QUIET, "d")
    device.quiet_nights(4)
    asked: list[int] = []
    device.night(lambda night, case: asked.append(night) or 0.0, since=4)  # type: ignore[func-returns-value]
    assert set(asked) == {0}


def test_each_question_has_a_row_with_its_interval() -> None:
    rows = list(nights.detection_rows(Trials(count=1), 1))
    assert len(rows) == 2 + len(nights.detections())
    assert all(row.count("|") == 6 for row in rows)
    assert "(2.5 % to 100 %)" in rows[4] or "(0 % to 98 %)" in rows[4]


def test_processes_share_trials_and_find_the_same() -> None:
    one, two = (
        list(nights.year_rows(Trials(count=2, processes=processes), seed=1, nights=2))
        for processes in (1, 2)
    )
    assert one == two


def test_a_reference_tells_of_the_machine_it_is_on() -> None:
    device = QuietDevice(QUIET, "e")
    assert "unknown: this reference" in device.machine().text
    device.quiet_nights(5)
    assert not device.machine().is_slower
    assert device.machine(lambda night, case: math.log(1.1)).is_slower
    rows = list(nights.machine_rows(Trials(count=1), 1))
    assert len(rows) == 2 + 2 * 8

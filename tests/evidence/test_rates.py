"""The rates that the pages state, on few devices: quiet ones are green, a slow case is seen."""

from __future__ import annotations

import pytest

from evidence import rates
from evidence.simulated import Device, Noise, grid
from evidence.trials import Trials


def test_every_kind_of_noise_has_a_name_of_its_own_and_questions_by_nights() -> None:
    assert len(set(rates.NAMES)) == len(rates.NAMES)
    for one in rates.SUBJECTS:
        nights = [question.nights for question in one.questions]
        assert nights == sorted(nights)


def test_a_row_has_the_share_its_interval_and_what_is_wanted() -> None:
    rows = list(rates.rows(Trials(count=4), 1, ["3 cases"]))
    assert rows[0].startswith("| noise | nights | question |")
    assert rows[2].startswith("| 3 cases | 1 | +5 % in all: red | ")
    assert "; 4) | >= 99 % |" in rows[2] and "; 16) | <= 0.1 % |" in rows[3]


def test_the_same_seed_draws_the_same_nights() -> None:
    cases = grid(1, 6)
    one, other = (Device(Noise(), rates.POLICY, cases, "7") for _ in range(2))
    assert one.nights(2) == other.nights(2)
    assert Device(Noise(), rates.POLICY, cases, "8").night() != one.night()


@pytest.mark.slow
def test_unchanged_nights_are_green_and_ten_per_cent_in_one_case_is_seen() -> None:
    found = rates._asked("0.5/0.5", 1, 0)
    told = {
        (question.nights, question.text): answers[""]
        for question, answers in zip(rates.SUBJECTS[0].questions, found)
    }
    assert told[0, "+10 % in one"] == (1, 1)
    assert told[3, "+10 % from 1M up: named"] == (22, 22)
    assert all(hits == 0 for (_, text), (hits, _) in told.items() if text == "unchanged: red")


def test_the_slow_mode_is_of_one_case_and_takes_its_share() -> None:
    device = Device(Noise(slow=2.0, slow_share=0.5), rates.POLICY, grid(1, 6), "1")
    found = device.nights(20)
    spreads = {case: max(one.past.launches[case].squares for one in found) for case in device.cases}
    assert max(spreads, key=lambda case: spreads[case]) is device.odd

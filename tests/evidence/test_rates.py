"""The rates that the pages state, on few devices: quiet ones are green, a slow case is seen."""

from __future__ import annotations

import pytest

from evidence import rates
from evidence.simulated import Device, Noise, grid


def test_questions_are_asked_by_nights() -> None:
    for one in rates.SUBJECTS.values():
        nights = [question.nights for question in one.questions]
        assert nights == sorted(nights)


def test_the_same_seed_draws_the_same_nights() -> None:
    cases = grid(1, 6)
    one, other = (Device(Noise(), rates.POLICY, cases, "7") for _ in range(2))
    assert one.nights(2) == other.nights(2)
    assert Device(Noise(), rates.POLICY, cases, "8").night() != one.night()


@pytest.mark.slow
def test_unchanged_nights_are_green_and_ten_per_cent_in_one_case_is_seen() -> None:
    found = {
        (question.nights, question.text): told[""]
        for question, told in zip(
            rates.SUBJECTS["0.5/0.5"].questions, rates.answers("0.5/0.5", 1, 0)
        )
    }
    assert found[0, "+10 % in one"] == (1, 1)
    assert found[3, "+10 % from 1M up: named"] == (22, 22)
    assert all(hits == 0 for (_, text), (hits, _) in found.items() if text == "unchanged: red")


def test_the_slow_mode_is_of_one_case() -> None:
    device = Device(Noise(slow=2.0), rates.POLICY, grid(1, 6), "1")
    found = device.nights(20)
    spreads = {case: max(one.past.launches[case].squares for one in found) for case in device.cases}
    assert max(spreads, key=lambda case: spreads[case]) is device.odd

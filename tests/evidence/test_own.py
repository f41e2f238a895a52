"""busbw's rule for stored baselines, as replays use it: sessions without noise, and with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from busbw.model.words import MIB
from evidence.own import stored
from evidence.replay import Draw, Outcome

from .synthetic import draw, side

SIZES = tuple(1024 << power for power in range(7))
# Sessions of a shared machine, of which one may take twice as long as another.
STORED = (1.0, 1.1, 0.95, 1.05, 0.9, 1.0)


def _draw(factor: float, fourth: Sequence[float] | None = None) -> Draw:
    """Nine launches of each payload, all of one factor, or those of the fourth of others."""
    factors: dict[int, Sequence[float]] = dict.fromkeys(SIZES, [factor] * 9)
    return draw({**factors, SIZES[3]: fourth or factors[SIZES[3]]}, STORED)


@pytest.mark.parametrize("factor", [0.3, 0.9, 1.0, 1.1])
def test_a_machine_in_another_mood_is_clear(factor: float) -> None:
    assert stored(_draw(factor)) is Outcome.CLEAR


def test_one_slow_payload_is_enough() -> None:
    assert stored(_draw(1.0, [2.5] * 9)) is Outcome.ALARM


def test_a_suspicion_that_is_not_seen_again_is_none() -> None:
    assert stored(_draw(1.0, [2.5] * 3 + [1.0] * 6)) is Outcome.CLEAR
    assert stored(_draw(1.0, [2.5] * 6 + [1.0] * 3)) is Outcome.ALARM


def test_one_that_cannot_be_seen_again_is_counted_against_the_rule() -> None:
    whole = _draw(1.0, [2.5] * 3 + [1.0] * 6)
    short = {payload: launches[:5] for payload, launches in whole.pairs.items()}
    assert stored(replace(whole, pairs=short)) is Outcome.ALARM


def test_all_payloads_slower_together_is_an_alarm() -> None:
    assert stored(_draw(2.2)) is Outcome.ALARM
    assert stored(_draw(1.5)) is Outcome.CLEAR


def test_payloads_that_differ_too_much_to_judge_are_undecided() -> None:
    wild = (1.0, 0.2, 5.0, 0.2, 5.0, 1.0)
    assert stored(draw({1024: [1.0] * 9, MIB: [1.0] * 9}, wild)) is Outcome.UNDECIDED


def test_a_reference_that_was_measured_beside_it_says_nothing() -> None:
    slow = _draw(2.5)
    pairs = {
        payload: tuple(replace(one, reference=side(2.5)) for one in launches)
        for payload, launches in slow.pairs.items()
    }
    assert stored(replace(slow, pairs=pairs)) is Outcome.ALARM

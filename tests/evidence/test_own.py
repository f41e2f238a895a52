"""busbw's rule for stored baselines, as replays use it: sessions without noise, and with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from busbw.model import MIB
from evidence.corpus import First, RecordedLaunch, Side
from evidence.draw import Draw, Outcome
from evidence.own import Stored

SIZES = tuple(1024 << power for power in range(7))
RULE = Stored()
# Sessions of a shared machine, of which one may take twice as long as another.
STORED = (1.0, 1.1, 0.95, 1.05, 0.9, 1.0)


def _side(factor: float) -> Side:
    return Side(samples_s=(1e-3 * factor,) * 10)


def _draw(factors: Mapping[int, float | Sequence[float]], stored: Sequence[float] = STORED) -> Draw:
    """Nine launches of each payload, all of one factor or each of its own."""
    now = {
        payload: tuple(
            RecordedLaunch(
                number=number,
                payload_bytes=payload,
                first=First.REFERENCE,
                reference=_side(1),
                candidate=_side(factor if isinstance(factor, float) else factor[number]),
            )
            for number in range(9)
        )
        for payload, factor in factors.items()
    }
    baseline = tuple({payload: (_side(one),) * 5 for payload in factors} for one in stored)
    return Draw(framework="jax", ranks=4, now=now, further=now, baseline=baseline)


def _all(factor: float, **others: float | Sequence[float]) -> dict[int, float | Sequence[float]]:
    return {size: others.get(f"at{at}", factor) for at, size in enumerate(SIZES)}


@pytest.mark.parametrize("factor", [0.3, 0.9, 1.0, 1.1])
def test_a_machine_in_another_mood_is_clear(factor: float) -> None:
    assert RULE(_draw(_all(factor))) is Outcome.CLEAR


def test_one_slow_payload_is_enough() -> None:
    assert RULE(_draw(_all(1.0, at3=2.5))) is Outcome.ALARM


def test_a_suspicion_that_is_not_seen_again_is_none() -> None:
    assert RULE(_draw(_all(1.0, at3=[2.5] * 3 + [1.0] * 6))) is Outcome.CLEAR
    assert RULE(_draw(_all(1.0, at3=[2.5] * 6 + [1.0] * 3))) is Outcome.ALARM


def test_one_that_cannot_be_seen_again_is_counted_against_the_rule() -> None:
    whole = _draw(_all(1.0, at3=[2.5] * 3 + [1.0] * 6))
    short = {payload: launches[:5] for payload, launches in whole.further.items()}
    assert RULE(replace(whole, now=short, further=short)) is Outcome.ALARM


def test_all_payloads_slower_together_is_an_alarm() -> None:
    assert RULE(_draw(_all(2.2))) is Outcome.ALARM
    assert RULE(_draw(_all(1.5))) is Outcome.CLEAR


def test_payloads_that_differ_too_much_to_judge_are_undecided() -> None:
    wild = (1.0, 0.2, 5.0, 0.2, 5.0, 1.0)
    assert RULE(_draw({1024: 1.0, MIB: 1.0}, stored=wild)) is Outcome.UNDECIDED


def test_it_knows_no_other_session_than_the_stored_ones() -> None:
    """A reference that was measured beside it says nothing."""
    slow = _draw(_all(2.5))
    references = {
        payload: tuple(replace(one, reference=_side(2.5)) for one in launches)
        for payload, launches in slow.further.items()
    }
    assert RULE(replace(slow, now=references, further=references)) is Outcome.ALARM

"""By how much an injected delay slows a collective down, with a scripted program."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.worker.backends.base import MeasuringError
from busbw.worker.measure import measure_injected_ratio
from busbw.worker.sampling import Sampler
from tests.unit.worker.scripted import (
    BESIDE_S,
    QUARTER,
    DelayedProgram,
    ScriptedProgram,
    make_sampler,
)


def _begin(program: ScriptedProgram, *, single: bool = False, **options: Any) -> Sampler:
    sampler = make_sampler(program, **options)
    sampler.warm_up_and_calibrate(times_single_calls=single)
    return sampler


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("more", [1.1, 1.25, 7.0])
def test_the_ratio_of_an_injected_delay_is_the_time_with_the_delay_over_the_time_without_the_delay(
    more: float, single: bool
) -> None:
    # What a call costs beyond its collectives does not count.
    program = DelayedProgram(lambda _: more, call_s=lambda _: 0.0 if single else 0.5)
    sampler = _begin(program, single=single)
    assert measure_injected_ratio(sampler, QUARTER) == pytest.approx(more)
    assert "sampling" not in sampler.phases.spent_s
    seconds = 4 * (1 + more + (0.0 if single else 2.0))
    assert sampler.phases.spent_s["injecting"] == pytest.approx(seconds)


def test_a_stall_of_one_chain_does_not_change_the_ratio_of_an_injected_delay() -> None:
    program = DelayedProgram(lambda turn: 50.0 if turn == 7 else 1.25)
    assert measure_injected_ratio(_begin(program, samples=5), QUARTER) == 1.25


def test_chains_with_and_without_an_injected_delay_alternate_in_the_order_a_b_b_a() -> None:
    program = DelayedProgram(lambda _: 1.25)
    sampler = _begin(program)
    before = len(program.with_work)
    measure_injected_ratio(sampler, QUARTER)
    # An empty chain and one of collectives each.
    assert program.with_work[before::2] == [False, True, True, False, False, True, True, False]
    assert program.with_work[before::2] == program.with_work[before + 1 :: 2]
    assert program.is_injecting


@pytest.mark.parametrize(
    ("budget_s", "turns"),
    # A few even if they need more time, and one of what takes very long.
    [(1e6, 40), (30 * BESIDE_S, 8), (5 * BESIDE_S, 5), (BESIDE_S, 2), (1.0, 1)],
)
def test_the_ratio_of_a_delay_comes_from_as_many_pairs_of_chains_as_the_sampling_time_allows(
    budget_s: float, turns: int
) -> None:
    program = DelayedProgram(lambda _: 1.25)
    sampler = _begin(program, samples=40, budget_s=budget_s)
    before = len(program.runs)
    assert measure_injected_ratio(sampler, QUARTER) == 1.25
    # A turn is two chains, each laid out and compared.
    assert len(program.runs) - before == 2 * turns


def test_an_injected_delay_is_refused_if_a_chain_takes_no_longer_than_an_empty_call() -> None:
    sampler = _begin(DelayedProgram(lambda _: 1.25))
    sampler.program = ScriptedProgram(lambda _: 0.0, call_s=lambda _: 0.5)
    with pytest.raises(MeasuringError, match="the delay cannot be measured"):
        measure_injected_ratio(sampler, QUARTER)


def test_an_injected_delay_is_refused_if_stalls_make_the_ratio_of_most_pairs_negative(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampler = _begin(ScriptedProgram(lambda _: 1.0), samples=3)
    # Every second pair begins with the delay. Without it the chains take 12, 12 and 8 s.
    long_s = iter([12.0, 14.0, 9.0, 12.0, 8.0, 14.0])
    monkeypatch.setattr(
        sampler, "time_short_and_long_chain", lambda iterations: (10.0, next(long_s))
    )
    with pytest.raises(MeasuringError, match="the delay cannot be measured"):
        measure_injected_ratio(sampler, QUARTER)

"""What injected work costs, of scripted programs that take longer while it is injected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from busbw.model import Extra, Injection
from busbw.worker.measure import measured_ratio
from busbw.worker.sampling import Sampler

from .scripted import BESIDE_S, Program, sampler

SLEEP = Injection(extra=Extra.SLEEP, seconds=0.5)


class Injected(Program):
    """Takes `more(turn)` times as long while it is injecting."""

    def __init__(self, more: Callable[[int], float], **options: Any) -> None:
        super().__init__(lambda turn: 1.0 if not self.injecting else more(turn), **options)
        self.with_work: list[bool] = []

    def run(self, iterations: int) -> None:
        self.with_work.append(self.injecting)
        super().run(iterations)


def _begun(program: Program, *, single: bool = False, **options: Any) -> Sampler:
    found = sampler(program, **options)
    found.begin(single=single)
    return found


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("more", [0.5, 1.0, 1.25])
def test_it_is_the_time_with_the_work_over_that_without_it(more: float, single: bool) -> None:
    program = Injected(lambda _: more)
    assert measured_ratio(_begun(program, single=single)) == more


def test_what_a_call_costs_beyond_its_collectives_does_not_count() -> None:
    program = Injected(lambda _: 1.25, call_s=lambda _: 0.5)
    assert measured_ratio(_begun(program)) == 1.25


def test_a_stall_of_one_chain_does_not_count() -> None:
    program = Injected(lambda turn: 50.0 if turn == 7 else 1.25)
    assert measured_ratio(_begun(program, samples=5)) == 1.25


def test_with_and_without_take_turns_and_change_their_order() -> None:
    program = Injected(lambda _: 1.25)
    found = _begun(program)
    before = len(program.with_work)
    measured_ratio(found)
    # An empty chain and one of collectives each.
    assert program.with_work[before::2] == [False, True, True, False, False, True, True, False]
    assert program.with_work[before::2] == program.with_work[before + 1 :: 2]


def test_afterwards_the_program_does_the_work_as_before() -> None:
    program = Injected(lambda _: 1.25)
    measured_ratio(_begun(program))
    assert program.injecting


@pytest.mark.parametrize(("budget_s", "turns"), [(30 * BESIDE_S, 8), (BESIDE_S, 2), (1e6, 40)])
def test_turns_are_as_many_as_the_time_for_samples_allows(budget_s: float, turns: int) -> None:
    program = Injected(lambda _: 1.25)
    found = _begun(program, samples=40, budget_s=budget_s)
    before = len(program.runs)
    measured_ratio(found)
    # A turn is two chains, each laid out and compared.
    assert len(program.runs) - before == 2 * turns


def test_a_few_turns_are_taken_even_if_they_need_more_time() -> None:
    program = Injected(lambda _: 1.25)
    found = _begun(program, samples=40, budget_s=5 * BESIDE_S)
    before = len(program.runs)
    measured_ratio(found)
    assert len(program.runs) - before == 2 * 5


def test_of_what_takes_very_long_there_is_one_turn() -> None:
    program = Injected(lambda _: 1.25)
    found = _begun(program, samples=40, budget_s=1.0)
    before = len(program.runs)
    assert measured_ratio(found) == 1.25
    assert len(program.runs) - before == 2


def test_a_sleep_is_in_every_sample_that_it_is_compared_in() -> None:
    assert measured_ratio(_begun(Program(lambda _: 1.0), asleep=SLEEP)) == 1.5


def test_what_the_clock_cannot_tell_from_an_empty_call_has_no_ratio() -> None:
    found = _begun(Injected(lambda _: 1.25))
    found.program = Program(lambda _: 0.0, call_s=lambda _: 0.5)
    assert measured_ratio(found) is None


def test_it_has_a_phase_of_its_own_and_adds_no_sample() -> None:
    found = _begun(Injected(lambda _: 1.25))
    measured_ratio(found)
    assert found.phases.spent_s["injecting"] == 4 * 2.25
    assert "sampling" not in found.phases.spent_s

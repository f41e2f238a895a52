"""Samples a turn at a time; scripted programs."""

from __future__ import annotations

import pytest

from .scripted import SURE, Program, sampler

LONG_S = 1e6


def test_begin_warms_up_and_calibrates_but_takes_no_sample() -> None:
    program = Program(lambda _: 2**-10)
    taking = sampler(program)
    taking.begin()
    assert program.calls == [1, 1, 0, 1, 0, 8, 0, 12]
    assert not taking.enough
    assert taking.values_checked == SURE * len(program.runs)


def test_a_stall_while_calibrating_is_tried_again_and_ends_nothing_early() -> None:
    # Turns: two to warm up, then the shortest chain, which stalls.
    program = Program(lambda turn: 2**-10 if turn != 2 else 0.5)
    taking = sampler(program)
    taking.begin()
    assert program.calls == [1, 1, *[0, 1] * 2, 0, 8, 0, 12]


def test_what_stalls_twice_is_what_it_takes() -> None:
    program = Program(lambda turn: 2**-10 if turn < 2 else 0.5)
    taking = sampler(program)
    taking.begin()
    assert program.calls == [1, 1, *[0, 1] * 2]


def test_begin_for_single_calls_warms_up_only() -> None:
    program = Program(lambda _: 2**-10)
    sampler(program).begin(single=True)
    assert program.calls == [1, 1]


@pytest.mark.parametrize(("single", "calls"), [(False, [0, 1]), (True, [1])])
def test_each_turn_is_one_sample(single: bool, calls: list[int]) -> None:
    program = Program(lambda _: 1.0)
    taking = sampler(program)
    taking.begin(single=single)
    begun = len(program.calls)
    for count in (1, 2, 3):
        taking.turn()
        assert program.calls[begun:] == count * calls
        assert len(taking.sampled().samples_s) == count


def test_there_are_enough_when_there_are_as_many_as_the_plan_wants() -> None:
    taking = sampler(Program(lambda _: 1.0), samples=3)
    taking.begin()
    found = []
    for _ in range(3):
        taking.turn()
        found.append(taking.enough)
    assert found == [False, False, True]


def test_turns_beyond_enough_are_samples_too() -> None:
    taking = sampler(Program(lambda _: 1.0), samples=2)
    taking.begin()
    for _ in range(5):
        taking.turn()
    assert taking.sampled().samples_s == (1.0,) * 5


def test_before_the_first_turn_no_time_has_been_spent() -> None:
    program = Program(lambda _: 1.0)
    taking = sampler(program, budget_s=500.0)
    taking.begin()
    program.clock_s += LONG_S
    assert not taking.enough
    taking.turn()
    assert not taking.enough

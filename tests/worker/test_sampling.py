"""How a time is found, with a scripted program: slopes, single calls, bounds, no sample dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError
from busbw.worker.sampling import Sampled

from .scripted import BESIDE_S, SURE, Program, sampled, sampler

Seconds = Callable[[int], float]


def _slopes(program: Program, **plan: Any) -> Sampled:
    return sampled(sampler(program, **plan))


def test_every_chain_begins_with_fresh_values_and_ends_with_a_check() -> None:
    program = Program()
    _slopes(program)
    events = [event for event in program.events if event != ("run", 0)]
    threes = [events[place : place + 3] for place in range(0, len(events), 3)]
    assert len(threes) > 4
    for three in threes:
        assert [name for name, _ in three] == ["fresh", "run", "check"]
        assert three[1][1] == three[2][1]


def test_a_sample_is_an_empty_call_and_then_a_chain_from_the_same_values() -> None:
    program = Program(lambda _: 2**-10)
    _slopes(program)
    assert program.events[-4:] == [("fresh", 0), ("run", 0), ("run", 12), ("check", 12)]
    assert program.calls.count(0) == 3 + 4


def test_only_the_run_itself_is_timed() -> None:
    # laying out and checking move the clock by 100 s each
    assert pytest.approx((1e-3,) * 4) == _slopes(Program()).samples_s


@pytest.mark.parametrize("shortest", [0, 1])
@pytest.mark.parametrize("call_s", [2**-12, 0.5, 8.0, 64.0])
def test_what_every_call_costs_falls_out_of_the_slope_exactly(call_s: float, shortest: int) -> None:
    # Powers of two: nothing is rounded.
    program = Program(lambda _: 2**-10, call_s=lambda _: call_s, shortest=shortest)
    found = _slopes(program, min_sample_s=0.01)
    assert found.samples_s == (2**-10,) * 4
    assert found.dispatch_s == call_s


def test_a_call_that_costs_nothing_has_no_cost_that_could_be_told() -> None:
    assert _slopes(Program(lambda _: 1.0)).dispatch_s is None


def test_without_the_slope_a_call_s_cost_would_be_in_every_sample() -> None:
    with_slope = sampled(sampler(Program(call_s=lambda _: 1.0)))
    assert with_slope.samples_s == pytest.approx((1e-3,) * 4)
    without = sampled(sampler(Program(call_s=lambda _: 1.0)), single=True)
    assert without.samples_s == pytest.approx((1.001,) * 4)


def test_where_an_empty_call_leaves_work_out_a_chain_of_one_is_what_is_counted_from() -> None:
    program = Program(lambda _: 1.0, call_s=lambda _: 0.5, shortest=1)
    found = _slopes(program)
    assert (found.iterations, found.samples_s, found.dispatch_s) == (2, (1.0,) * 4, 0.5)
    assert 0 not in program.calls
    assert program.events[-6:] == [
        *(("fresh", 0), ("run", 1), ("check", 1)),
        *(("fresh", 0), ("run", 2), ("check", 2)),
    ]


@pytest.mark.parametrize("most", [2, 3, 50])
def test_the_longer_chain_is_longer_than_the_shortest_and_still_exact(most: int) -> None:
    program = Program(lambda _: 1e-9, call_s=lambda _: 1e-3, shortest=1, most=most)
    found = _slopes(program)
    assert most == max(program.runs) == found.iterations
    assert found.samples_s == pytest.approx((1e-9,) * 4, rel=1e-3)


def test_the_shortest_chain_is_the_p25_of_all_so_that_one_slow_one_moves_nothing() -> None:
    # Calls: two to warm up, one more to calibrate, then empty and chain by turns.
    program = Program(lambda _: 1.0, call_s=lambda turn: 50.0 if turn == 4 else 0.25)
    found = _slopes(program)
    assert found.dispatch_s == 0.25
    assert found.samples_s == (1.0,) * 4


def test_a_long_empty_call_is_an_error_that_names_both_times() -> None:
    slow_when_empty = iter([0.0] * 4 + [9.0, 0.0] * 4)
    program = Program(lambda _: 2.0, call_s=lambda _: next(slow_when_empty))
    with pytest.raises(MeasuringError) as caught:
        _slopes(program)
    assert caught.value.kind is FailureKind.UNAVAILABLE
    assert str(caught.value) == (
        "a chain of 1 took 2 s, one of 0 up to 9 s: the host's clock cannot distinguish them"
    )


def test_a_single_chain_as_short_as_an_empty_call_is_enough_to_be_told_from_none() -> None:
    times_s = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0]
    program = Program(lambda turn: times_s[turn], call_s=lambda _: 0.5)
    with pytest.raises(MeasuringError, match=r"a chain of 1 took 0\.5 s, one of 0 up to 0\.5 s"):
        _slopes(program)


def test_a_clock_that_does_not_move_gives_no_time() -> None:
    with pytest.raises(MeasuringError, match="a chain of 1000 took 0 s"):
        _slopes(Program(lambda _: 0.0))


def test_a_single_call_is_timed_as_it_is_with_what_it_costs() -> None:
    program = Program(lambda _: 0.75, call_s=lambda _: 0.25)
    found = sampled(sampler(program), single=True)
    assert (found.iterations, found.samples_s, found.dispatch_s) == (1, (1.0,) * 4, None)
    assert set(program.calls) == {1}


def test_single_calls_warm_up_but_are_not_chained_however_short_they_are() -> None:
    program = Program(lambda turn: [8.0, 4.0, 2.0, 1.9][turn] if turn < 4 else 1.0)
    found = sampled(sampler(program, min_sample_s=100.0), single=True)
    assert found.samples_s == (1.0,) * 4
    assert program.calls == [1] * 8


def test_warming_up_comes_first_then_calibrating_then_samples_of_one_length() -> None:
    program = Program(lambda _: 2**-10)
    found = _slopes(program)
    assert program.calls == [1, 1, 0, 1, 0, 8, 0, 12, *[0, 12] * 4]
    assert found.iterations == 12


def test_warming_up_goes_on_while_each_run_is_much_faster_than_the_last() -> None:
    times_s = [8.0, 4.0, 2.0, 1.0]
    program = Program(lambda turn: times_s[min(turn, 3)])
    found = _slopes(program)
    assert program.runs[:5] == [1] * 5
    assert found.samples_s == (1.0,) * 4


def test_warming_up_ends_with_the_budget() -> None:
    program = Program(lambda turn: 0.5**turn)
    _slopes(program, budget_s=BESIDE_S, samples=2, min_sample_s=0.0)
    assert program.runs[:2] == [1, 1]
    assert program.calls[2] == 0


def test_the_first_call_is_kept_apart() -> None:
    program = Program(lambda turn: 8.0 if turn == 0 else 1.0)
    taking = sampler(program)
    assert sampled(taking).samples_s == (1.0,) * 4
    assert taking.first_call_s == 8.0


def test_no_sample_is_taken_from_warming_up_or_calibrating() -> None:
    program = Program(lambda turn: 1e-3 if turn < 5 else 1.0 + turn)
    assert _slopes(program).samples_s == (6.0, 7.0, 8.0, 9.0)


@pytest.mark.parametrize(("single", "before"), [(False, 3), (True, 2)])
def test_samples_are_kept_in_order_and_none_is_dropped(single: bool, before: int) -> None:
    times_s = [1.0] * before + [5.0, 1.0, 900.0, 2.0]
    found = sampled(sampler(Program(lambda turn: times_s[turn])), single=single)
    assert found.samples_s == (5.0, 1.0, 900.0, 2.0)


def test_a_case_that_takes_long_is_not_repeated_within_a_sample() -> None:
    program = Program(lambda _: 0.02)
    assert _slopes(program).iterations == 1
    assert program.runs == [1] * (2 + 1 + 4)


@pytest.mark.parametrize("one_s", [1e-6, 1e-4, 1.1e-3, 9.9e-3])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_sample_lasts_as_long_as_the_plan_wants(one_s: float, step: int) -> None:
    program = Program(lambda _: one_s, step=step, most=10**6)
    found = _slopes(program, min_sample_s=0.01)
    assert found.iterations * one_s >= 0.01
    assert found.iterations * one_s <= max(8 * 0.01, 2 * step * one_s)


@pytest.mark.parametrize("shortest", [0, 1])
def test_what_a_call_costs_makes_no_sample_long_enough(shortest: int) -> None:
    program = Program(lambda _: 1e-3, call_s=lambda _: 5.0, shortest=shortest)
    found = _slopes(program, min_sample_s=0.01)
    assert (found.iterations - shortest) * 1e-3 >= 0.01


@pytest.mark.parametrize("shortest", [0, 1])
def test_where_a_chain_takes_as_long_as_all_sampling_may_none_is_tried_beyond_it(
    shortest: int,
) -> None:
    program = Program(lambda _: 1000.0, shortest=shortest)
    found = _slopes(program, budget_s=900.0)
    assert (found.iterations, len(found.samples_s)) == (shortest + 1, 2)
    assert program.calls == [1, 1, *[shortest, shortest + 1] * 2]


def test_a_chain_of_many_times_all_sampling_is_warmed_up_and_sampled_once() -> None:
    program = Program(lambda _: 9000.0)
    assert len(_slopes(program, budget_s=1000.0).samples_s) == 1
    assert program.calls == [1, 0, 1]


def test_a_stall_of_the_only_short_chain_passes_for_nothing_where_the_warm_up_was_faster() -> None:
    # Turns: the warm-up, the short chain that stalls, the long one.
    program = Program(lambda turn: [1000.0, 1700.0, 1000.0][turn], shortest=1)
    assert _slopes(program, budget_s=200.0).samples_s == (1000.0,)


def test_iterations_come_in_whole_steps() -> None:
    program = Program(lambda _: 1e-4, step=4)
    assert _slopes(program).iterations % 4 == 0
    assert {0} == {iterations % 4 for iterations in program.runs}


@pytest.mark.parametrize("most", [1, 2, 7, 12, 100])
def test_no_run_is_longer_than_values_stay_exact(most: int) -> None:
    program = Program(lambda _: 1e-9, most=most)
    found = _slopes(program)
    assert most == max(program.runs) == found.iterations


def test_calibrating_grows_by_no_more_than_eight_at_a_time() -> None:
    program = Program(lambda _: 1e-9, most=10**6)
    _slopes(program)
    grown = [after / before for before, after in zip(program.runs, program.runs[1:])]
    assert max(grown) <= 8


@pytest.mark.parametrize("single", [False, True])
def test_sampling_ends_with_the_budget_after_two_samples_or_one_of_many_times_that(
    single: bool,
) -> None:
    def count(budget_s: float) -> int:
        taking = sampler(Program(lambda _: 0.02), budget_s=budget_s, samples=12)
        return len(sampled(taking, single=single).samples_s)

    # each sample moves the clock by 200 s and a little
    assert count(0.1 * 2 * BESIDE_S) == 1
    assert count(0.2 * 2 * BESIDE_S) == 2
    assert count(2.5 * 2 * BESIDE_S) == 3
    assert count(1e6) == 12


def test_the_values_of_every_chain_are_counted() -> None:
    program = Program()
    taking = sampler(program)
    sampled(taking)
    assert SURE * len(program.runs) == taking.values_checked


@pytest.mark.parametrize("turn", [0, 1, 2, 4, 7])
def test_a_wrong_value_in_any_chain_is_raised(turn: int) -> None:
    with pytest.raises(MeasuringError, match="rank 1, element 7") as caught:
        _slopes(Program(wrong_at=turn))
    assert caught.value.kind is FailureKind.WRONG_RESULT


def test_time_goes_to_warming_up_sampling_laying_out_and_checking() -> None:
    program = Program(lambda _: 0.5, call_s=lambda _: 0.25)
    taking = sampler(program)
    sampled(taking)
    chains = len(program.runs)
    assert taking.phases.spent_s == pytest.approx(
        {
            "warming_up": 3 * 0.75 + 0.25,
            "sampling": 4 * (0.75 + 0.25),
            "laying_out": chains * BESIDE_S,
            "checking": chains * BESIDE_S,
        }
    )

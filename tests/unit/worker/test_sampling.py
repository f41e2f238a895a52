"""Slopes, single calls, warm-up and calibration, with a scripted program; no sample is dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.launch import PreviousPace
from busbw.model.words import FailureKind
from busbw.worker.backends.base import AllGather, MeasuringError
from busbw.worker.sampling import PhaseTimer, Samples
from tests.unit.worker.scripted import BESIDE_S, ScriptedProgram, make_sampler, take_samples


def _slopes(program: ScriptedProgram, **plan: Any) -> Samples:
    return take_samples(make_sampler(program, **plan))


def test_every_chain_of_samples_begins_with_fresh_values_and_ends_with_a_check() -> None:
    program = ScriptedProgram()
    _slopes(program)
    events = [event for event in program.events if event != ("run", 0)]
    threes = [events[place : place + 3] for place in range(0, len(events), 3)]
    assert len(threes) > 4
    for three in threes:
        assert [name for name, _ in three] == ["initialize", "run", "check"]
        assert three[1][1] == three[2][1]


PACE = PreviousPace(iterations=12, time_s=2**-10, dispatch_s=0.25)


@pytest.mark.parametrize(("first_s", "warm_up"), [(0.25, 1), (0.27, 1), (0.28, 2), (9.0, 2)])
def test_a_first_chain_as_fast_as_in_the_previous_launch_needs_no_second_warm_up(
    first_s: float, warm_up: int
) -> None:
    program = ScriptedProgram(lambda _: 2**-10, call_s=lambda turn: 0.25 if turn else first_s)
    make_sampler(program).warm_up_and_calibrate(pace=PACE)
    assert program.calls == [*[1] * warm_up, 0, 12]


@pytest.mark.parametrize(
    ("iterations", "most", "chains"),
    [
        # Shorter ones than before are not tried, longer ones where these are too short by now.
        (12, 1000, [12]),
        (40, 1000, [40]),
        (4, 1000, [4, 12]),
        (1, 1000, [1, 8, 12]),
        # No longer than it is exact.
        (40, 10, [10]),
    ],
)
def test_the_calibration_of_chains_begins_at_the_length_of_the_previous_launch(
    iterations: int, most: int, chains: list[int]
) -> None:
    program = ScriptedProgram(lambda _: 2**-10, most=most)
    sampler = make_sampler(program)
    sampler.warm_up_and_calibrate(pace=replace(PACE, iterations=iterations, dispatch_s=0.0))
    assert program.runs == [1, *chains]


def test_the_length_of_each_chain_is_a_multiple_of_the_iterations_of_a_turn() -> None:
    program = ScriptedProgram(lambda _: 2**-10, step=4)
    make_sampler(program).warm_up_and_calibrate(pace=replace(PACE, iterations=11, dispatch_s=0.0))
    assert program.runs == [4, 8, 12]


@pytest.mark.parametrize("shortest", [0, 1])
@pytest.mark.parametrize("call_s", [0.0, 2**-12, 0.5, 8.0, 64.0])
def test_the_overhead_of_a_call_is_not_part_of_a_sample(call_s: float, shortest: int) -> None:
    # Powers of two: nothing is rounded.
    program = ScriptedProgram(lambda _: 2**-10, call_s=lambda _: call_s, shortest=shortest)
    samples = _slopes(program, min_sample_s=0.01)
    assert samples.samples_s == (2**-10,) * 4
    # A call that costs nothing has no cost that could be told.
    assert samples.dispatch_s == (call_s or None)


def test_the_short_chain_of_a_slope_has_one_iteration_if_an_empty_call_skips_work() -> None:
    program = ScriptedProgram(lambda _: 1.0, call_s=lambda _: 0.5, shortest=1)
    samples = _slopes(program)
    assert (samples.iterations, samples.samples_s, samples.dispatch_s) == (2, (1.0,) * 4, 0.5)
    assert 0 not in program.calls
    assert program.events[-6:] == [
        *(("initialize", 0), ("run", 1), ("check", 1)),
        *(("initialize", 0), ("run", 2), ("check", 2)),
    ]


def test_an_empty_call_longer_than_the_chain_is_an_error_that_names_both_times() -> None:
    slow_when_empty = iter([0.0] * 4 + [99.0, 0.0] * 8)
    program = ScriptedProgram(lambda _: 2.0, call_s=lambda _: next(slow_when_empty))
    with pytest.raises(MeasuringError) as caught:
        _slopes(program)
    assert caught.value.kind is FailureKind.UNAVAILABLE
    assert str(caught.value) == (
        "a chain of 8 took 16 s, one of 0 up to 99 s: the host's clock cannot distinguish them"
    )


def test_a_sample_of_a_single_call_includes_the_overhead_of_the_call() -> None:
    program = ScriptedProgram(lambda _: 0.75, call_s=lambda _: 0.25)
    samples = take_samples(make_sampler(program), single=True)
    assert (samples.iterations, samples.samples_s, samples.dispatch_s) == (1, (1.0,) * 4, None)
    assert set(program.calls) == {1}


def test_after_warm_up_and_calibration_all_samples_have_chains_of_the_same_length() -> None:
    program = ScriptedProgram(lambda _: 2**-10)
    samples = _slopes(program)
    assert program.calls == [1, 1, 0, 1, 0, 8, 0, 12, *[0, 12] * 4]
    assert samples.iterations == 12


def test_the_warm_up_continues_while_each_chain_is_much_faster_than_the_previous_chain() -> None:
    times_s = [8.0, 4.0, 2.0, 1.0]
    program = ScriptedProgram(lambda turn: times_s[min(turn, 3)])
    samples = _slopes(program)
    assert program.runs[:5] == [1] * 5
    assert samples.samples_s == (1.0,) * 4


def test_the_warm_up_ends_when_the_time_for_samples_is_spent() -> None:
    program = ScriptedProgram(lambda turn: 0.5**turn)
    _slopes(program, budget_s=BESIDE_S, samples=2, min_sample_s=0.0)
    assert (program.runs[:2], program.calls[2]) == ([1, 1], 0)


@pytest.mark.parametrize(("single", "before"), [(False, 3), (True, 2)])
def test_all_samples_are_kept_in_their_order(single: bool, before: int) -> None:
    times_s = [1.0] * before + [5.0, 1.0, 900.0, 2.0]
    samples = take_samples(make_sampler(ScriptedProgram(lambda turn: times_s[turn])), single=single)
    assert samples.samples_s == (5.0, 1.0, 900.0, 2.0)


@pytest.mark.parametrize("one_s", [1e-6, 1e-4, 1.1e-3, 9.9e-3])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_sample_lasts_at_least_as_long_as_the_plan_requests(one_s: float, step: int) -> None:
    program = ScriptedProgram(lambda _: one_s, step=step, most=10**6)
    samples = _slopes(program, min_sample_s=0.01)
    assert samples.iterations * one_s >= 0.01
    assert samples.iterations * one_s <= max(8 * 0.01, 2 * step * one_s)
    assert {0} == {iterations % step for iterations in program.runs}


@pytest.mark.parametrize("shortest", [0, 1])
def test_the_overhead_of_a_call_does_not_count_for_the_requested_length_of_a_sample(
    shortest: int,
) -> None:
    program = ScriptedProgram(lambda _: 1e-3, call_s=lambda _: 5.0, shortest=shortest)
    assert (_slopes(program, min_sample_s=0.01).iterations - shortest) * 1e-3 >= 0.01


@pytest.mark.parametrize("shortest", [0, 1])
def test_a_chain_is_not_made_longer_if_one_iteration_takes_all_the_sampling_time(
    shortest: int,
) -> None:
    program = ScriptedProgram(lambda _: 1000.0, shortest=shortest)
    samples = _slopes(program, budget_s=900.0)
    assert (samples.iterations, len(samples.samples_s)) == (shortest + 1, 2)
    assert program.calls == [1, 1, *[shortest, shortest + 1] * 2]


def test_an_iteration_much_longer_than_the_sampling_time_is_warmed_up_and_sampled_once() -> None:
    program = ScriptedProgram(lambda _: 9000.0)
    assert len(_slopes(program, budget_s=1000.0).samples_s) == 1
    assert program.calls == [1, 0, 1]


def _listed(values_s: Sequence[float], rest_s: float = 0.0) -> Callable[[int], float]:
    return lambda turn: values_s[turn] if turn < len(values_s) else rest_s


# Two calls warm up, two calibrate, then empty and chain by turns.
CALM = [0.0] * 4


@pytest.mark.parametrize(
    ("program", "plan", "iterations", "samples_s", "dispatch_s"),
    [
        # A single empty call is slow.
        (
            ScriptedProgram(lambda _: 1.0, call_s=_listed([0.25] * 4 + [50.0], 0.25)),
            {},
            1,
            (1.0,) * 4,
            0.25,
        ),
        # Stalls hide the time of a chain in two samples: sampling continues beyond its time.
        (
            ScriptedProgram(lambda _: 2.0, call_s=_listed(CALM + [9.0, 0.0] * 2)),
            {"samples": 9, "budget_s": 1.5 * BESIDE_S},
            1,
            (2.0,) * 4,
            None,
        ),
        # In all samples, and then no more: chains are made longer once.
        (
            ScriptedProgram(lambda _: 2.0, call_s=_listed(CALM + [9.0, 0.0] * 4)),
            {},
            8,
            (2.0,) * 4,
            None,
        ),
        # The warm-up, the short chain that stalls, the long one.
        (
            ScriptedProgram(_listed([1000.0, 1700.0, 1000.0]), shortest=1),
            {"budget_s": 200.0},
            2,
            (1000.0,),
            None,
        ),
        # The warm-up, then a short chain and the two collectives of a long chain for each sample.
        (
            ScriptedProgram(_listed([1700.0, 1700.0, 1100.0, 1000.0, 1000.0]), shortest=1),
            {"budget_s": 200.0},
            2,
            (1025.0, 1000.0),
            168.75,
        ),
        (
            ScriptedProgram(_listed([1700.0, *(1700.0, 1000.0) * 3]), shortest=1),
            {"budget_s": 200.0},
            2,
            (300.0, 300.0, 300.0),
            1400.0,
        ),
    ],
    ids=["slow call", "some samples", "all samples", "warm-up", "short chain", "short chains"],
)
def test_the_samples_of_a_machine_that_stalls_are_longer_or_more_or_without_the_stalled_call(
    program: ScriptedProgram,
    plan: dict[str, Any],
    iterations: int,
    samples_s: tuple[float, ...],
    dispatch_s: float | None,
) -> None:
    samples = _slopes(program, **plan)
    assert (samples.iterations, samples.samples_s) == (iterations, samples_s)
    assert samples.dispatch_s == dispatch_s


@pytest.mark.parametrize(
    ("shortest", "most"), [(0, 1), (0, 2), (0, 7), (0, 12), (0, 100), (1, 2), (1, 3), (1, 50)]
)
def test_no_chain_has_more_iterations_than_its_dtype_can_represent_exactly(
    shortest: int, most: int
) -> None:
    program = ScriptedProgram(
        lambda _: 1e-9, call_s=lambda _: 1e-3 * shortest, shortest=shortest, most=most
    )
    samples = _slopes(program)
    assert most == max(program.runs) == samples.iterations
    assert samples.samples_s == pytest.approx((1e-9,) * 4, rel=1e-3)


@pytest.mark.parametrize("single", [False, True])
def test_sampling_ends_after_its_time_with_at_least_two_samples_or_a_very_long_sample(
    single: bool,
) -> None:
    def count(budget_s: float) -> int:
        sampler = make_sampler(ScriptedProgram(lambda _: 0.02), budget_s=budget_s, samples=12)
        return len(take_samples(sampler, single=single).samples_s)

    # each sample moves the clock by 200 s and a little
    assert count(0.1 * 2 * BESIDE_S) == 1
    assert count(0.2 * 2 * BESIDE_S) == 2
    assert count(2.5 * 2 * BESIDE_S) == 3
    assert count(1e6) == 12


def test_the_time_of_sampling_is_divided_into_four_phases() -> None:
    program = ScriptedProgram(lambda _: 0.5, call_s=lambda _: 0.25)
    sampler = make_sampler(program)
    take_samples(sampler)
    chains = len(program.runs)
    assert sampler.phases.spent_s == pytest.approx(
        {
            "warming_up": 3 * 0.75 + 0.25,
            "sampling": 4 * (0.75 + 0.25),
            "laying_out": chains * BESIDE_S,
            "checking": chains * BESIDE_S,
        }
    )


def test_time_in_an_inner_phase_of_a_run_does_not_count_for_the_outer_phase() -> None:
    # The clock is read as a phase begins and as it ends.
    phases = PhaseTimer(iter([100.0, 101.0, 103.0, 119.0, 200.0, 232.0]).__next__)
    with phases.enter("compiling"), phases.enter("sampling"):
        pass
    with pytest.raises(ZeroDivisionError), phases.enter("compiling"):
        raise ZeroDivisionError
    assert phases.spent_s == {"compiling": 1 + 16 + 32, "sampling": 2}


_WAIT_S = 20.0


class Exchange:
    """Sends the values of each thread to all threads, as the processes of a group do."""

    def __init__(self, count: int) -> None:
        self._rows: list[tuple[float, ...]] = [()] * count
        self._all_there = threading.Barrier(count, timeout=_WAIT_S)

    def for_thread(self, index: int) -> AllGather:
        """Return the function of a thread."""

        def all_gather(values: Sequence[float]) -> Sequence[Sequence[float]]:
            self._rows[index] = tuple(values)
            self._all_there.wait()
            rows = list(self._rows)
            self._all_there.wait()
            return rows

        return all_gather


def together(programs: Sequence[ScriptedProgram], **plan: Any) -> list[Samples]:
    """Return the samples of each program."""
    exchange = Exchange(len(programs))

    def run(index: int) -> Samples:
        all_gather = exchange.for_thread(index)
        return take_samples(make_sampler(programs[index], all_gather=all_gather, **plan))

    with ThreadPoolExecutor(len(programs)) as pool:
        return list(pool.map(run, range(len(programs))))


@pytest.mark.parametrize(
    ("quick", "slow", "plan"),
    [
        # The slower of two calls counts, whichever process makes it.
        (lambda turn: 1e-3, lambda turn: 4e-3, {}),
        (lambda turn: 1e-3, lambda turn: 2e-3 if turn % 2 else 1e-4, {}),
        # Each run takes a tenth of the last: one process warms up until its budget is spent.
        (
            lambda turn: 1e-3 * 0.1**turn,
            lambda turn: 0.1**turn,
            {"samples": 2, "budget_s": 400.5},
        ),
    ],
)
def test_all_processes_of_a_group_have_the_samples_of_the_slowest_process(
    quick: Callable[[int], float], slow: Callable[[int], float], plan: dict[str, Any]
) -> None:
    programs = [ScriptedProgram(quick), ScriptedProgram(slow)]
    first, second = together(programs, **plan)
    assert programs[0].calls == programs[1].calls
    assert (first.iterations, first.samples_s) == (second.iterations, second.samples_s)
    assert plan or max(first.samples_s) >= 2e-3 - 1e-9


def test_sampling_ends_after_the_same_number_of_samples_in_all_processes_of_a_group() -> None:
    # The clocks of both move by what they do themselves; one does a thousand times as much.
    programs = [ScriptedProgram(lambda _: 1e-3), ScriptedProgram(lambda _: 1.0)]
    first, second = together(programs, samples=50, budget_s=3000.0)
    assert len(first.samples_s) == len(second.samples_s) < 50


@pytest.mark.parametrize(
    ("stalls", "calls"), [(range(2, 3), [0, 8, 0, 12]), (range(2, 9), [])], ids=["once", "twice"]
)
def test_a_stalled_chain_is_timed_again_during_the_calibration(
    stalls: range, calls: list[int]
) -> None:
    # Turns: two to warm up, then the shortest chain.
    program = ScriptedProgram(lambda turn: 0.5 if turn in stalls else 2**-10)
    make_sampler(program).warm_up_and_calibrate()
    assert program.calls == [1, 1, *[0, 1] * 2, *calls]


def test_time_before_the_first_sample_does_not_count_as_sampling_time() -> None:
    program = ScriptedProgram(lambda _: 1.0)
    sampler = make_sampler(program, budget_s=500.0)
    sampler.warm_up_and_calibrate()
    program.clock_s += 1e6
    assert not sampler.has_enough_samples
    sampler.take_sample()
    assert not sampler.has_enough_samples

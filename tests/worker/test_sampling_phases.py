"""What a case's time goes to: every second counts to one phase, the innermost."""

from __future__ import annotations

import pytest

from busbw.worker.sampling import Phases


class _Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def phases(clock: _Clock) -> Phases:
    return Phases(clock)


def test_a_phase_has_the_seconds_that_passed_in_it(clock: _Clock, phases: Phases) -> None:
    clock.wait(5)
    with phases.of("compiling"):
        clock.wait(2)
    clock.wait(7)
    assert phases.spent_s == {"compiling": 2}


def test_a_phase_that_comes_again_adds_up(clock: _Clock, phases: Phases) -> None:
    for seconds in (1, 2, 4):
        with phases.of("checking"):
            clock.wait(seconds)
        clock.wait(100)
    assert phases.spent_s == {"checking": 7}


def test_what_is_spent_in_an_inner_phase_is_not_part_of_the_outer_one(
    clock: _Clock, phases: Phases
) -> None:
    with phases.of("compiling"):
        clock.wait(1)
        with phases.of("sampling"):
            clock.wait(2)
            with phases.of("checking"):
                clock.wait(4)
            clock.wait(8)
        clock.wait(16)
    assert phases.spent_s == {"compiling": 17, "sampling": 10, "checking": 4}


def test_all_phases_together_are_all_the_time_between_first_and_last(
    clock: _Clock, phases: Phases
) -> None:
    begun_s = clock()
    with phases.of("one"):
        for seconds in (3, 5):
            with phases.of("two"):
                clock.wait(seconds)
            clock.wait(1)
    assert sum(phases.spent_s.values()) == clock() - begun_s


def test_a_phase_that_ends_with_an_error_is_counted_and_over(clock: _Clock, phases: Phases) -> None:
    with phases.of("outer"):
        with pytest.raises(ZeroDivisionError), phases.of("inner"):
            clock.wait(3)
            raise ZeroDivisionError
        clock.wait(4)
    assert phases.spent_s == {"inner": 3, "outer": 4}


def test_a_phase_without_time_is_there_with_none(phases: Phases) -> None:
    with phases.of("laying_out"):
        pass
    assert phases.spent_s == {"laying_out": 0}

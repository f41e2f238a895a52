"""One case in one launch, with a scripted program: the order, the bounds, and no sample dropped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from busbw.model import Case, Failure, FailureKind, Found, Probe, Run
from busbw.worker import memory
from busbw.worker.backends.base import AbstractBackend, AbstractProgram, MeasuringError, MemoryNeed
from busbw.worker.measure import Desk
from busbw.worker.memory import Headroom
from tests import build

Event = tuple[str, int]
SURE = 3
BIG = 10**12


class _Program(AbstractProgram):
    """Takes `seconds(turn)` for an iteration of its run number `turn`, and writes down all."""

    compile_s = 0.5

    def __init__(
        self,
        seconds: Callable[[int], float] = lambda _: 1e-3,
        *,
        step: int = 1,
        most: int = 1000,
        wrong_at: int | None = None,
    ) -> None:
        self.step = step
        self.most_iterations = most
        self.proof = build.proof()
        self.events: list[Event] = []
        self.clock_s = 0.0
        self._seconds = seconds
        self._wrong_at = wrong_at

    @property
    def runs(self) -> list[int]:
        """How many iterations each run had."""
        return [iterations for name, iterations in self.events if name == "run"]

    def fresh(self) -> None:
        self.clock_s += 100.0
        self.events.append(("fresh", 0))

    def run(self, iterations: int) -> None:
        self.clock_s += iterations * self._seconds(len(self.runs))
        self.events.append(("run", iterations))

    def check(self, iterations: int) -> int:
        self.clock_s += 100.0
        if len(self.runs) - 1 == self._wrong_at:
            raise MeasuringError(FailureKind.WRONG_RESULT, "rank 1, element 7: 3.0, expected 4.0")
        self.events.append(("check", iterations))
        return SURE

    def device_peak_bytes(self) -> int | None:
        return 77


class _Backend(AbstractBackend):
    framework_path = "/somewhere/scripted"
    versions = build.VERSIONS

    def __init__(self, program: _Program, need: MemoryNeed | None = None) -> None:
        self.program = program
        self.released = False
        self._need = need

    def probe(self) -> Probe:
        raise NotImplementedError

    def now_s(self) -> float:
        return self.program.clock_s

    def memory_need(self, case: Case) -> MemoryNeed | None:
        return self._need

    @contextlib.contextmanager
    def prepared(self, case: Case) -> Iterator[AbstractProgram]:
        try:
            yield self.program
        finally:
            self.released = True


def _measured(backend: _Backend, **plan: Any) -> Run | Failure:
    ordinary = {"samples": 4, "min_sample_s": 0.01, "budget_s": 1e6}
    desk = Desk(backend=backend, launch="2.1")
    return desk.measure(build.case(), build.plan(**{**ordinary, **plan}))


def _run_of(program: _Program, **plan: Any) -> Run:
    run = _measured(_Backend(program), **plan)
    assert isinstance(run, Run)
    return run


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A machine with 100 bytes left of 200, and a worker that stays as large as it began."""
    sizes = {"resident": 10}
    left = Headroom(available_bytes=100, capacity_bytes=200)
    monkeypatch.setattr(memory, "headroom", lambda limit_bytes: left)
    monkeypatch.setattr(memory, "resident_bytes", lambda: sizes["resident"])
    monkeypatch.setattr(memory, "reset_peak", lambda: True)
    monkeypatch.setattr(memory, "peak_bytes", lambda: 50)
    return sizes


def test_every_run_begins_with_fresh_values_and_ends_with_a_check() -> None:
    program = _Program()
    _run_of(program)
    threes = [program.events[i : i + 3] for i in range(0, len(program.events), 3)]
    assert len(threes) > 4
    for three in threes:
        assert [name for name, _ in three] == ["fresh", "run", "check"]
        assert three[1][1] == three[2][1]


def test_only_the_run_itself_is_timed() -> None:
    # laying out and checking move the clock by 100 s each
    assert pytest.approx((1e-3,) * 4) == _run_of(_Program()).samples_s


def test_warming_up_comes_first_then_calibrating_then_samples_of_one_length() -> None:
    program = _Program()
    run = _run_of(program)
    assert program.runs == [1, 1, 8, 12, 12, 12, 12, 12]
    assert run.iterations == 12


def test_warming_up_goes_on_while_each_run_is_much_faster_than_the_last() -> None:
    times_s = [8.0, 4.0, 2.0, 1.0]
    program = _Program(lambda turn: times_s[min(turn, 3)])
    run = _run_of(program)
    assert program.runs[:5] == [1] * 5
    assert run.samples_s == (1.0,) * 4


def test_warming_up_ends_with_the_budget() -> None:
    program = _Program(lambda turn: 0.5**turn)
    _run_of(program, budget_s=0.0, samples=2, min_sample_s=0.0)
    assert program.runs == [1, 1, 1]


def test_no_sample_is_taken_from_warming_up_or_calibrating() -> None:
    program = _Program(lambda turn: 1e-3 if turn < 4 else 1.0 + turn)
    assert _run_of(program).samples_s == (5.0, 6.0, 7.0, 8.0)


def test_samples_are_kept_in_order_and_none_is_dropped() -> None:
    times_s = [1.0, 1.0, 5.0, 1.0, 900.0, 2.0]
    run = _run_of(_Program(lambda turn: times_s[turn]))
    assert run.samples_s == (5.0, 1.0, 900.0, 2.0)


def test_a_case_that_takes_long_is_not_repeated_within_a_sample() -> None:
    program = _Program(lambda _: 0.02)
    assert _run_of(program).iterations == 1
    assert program.runs == [1] * 6


def test_iterations_come_in_whole_steps() -> None:
    program = _Program(lambda _: 1e-4, step=4)
    run = _run_of(program)
    assert run.iterations * 1e-4 >= 0.01
    assert {0} == {iterations % 4 for iterations in program.runs}


@pytest.mark.parametrize("most", [1, 2, 7, 12, 100])
def test_no_run_is_longer_than_values_stay_exact(most: int) -> None:
    program = _Program(lambda _: 1e-9, most=most)
    run = _run_of(program)
    assert most == max(program.runs) == run.iterations


def test_a_clock_that_does_not_move_ends_in_the_longest_run() -> None:
    assert _run_of(_Program(lambda _: 0.0)).iterations == 1000


def test_calibrating_grows_by_no_more_than_eight_at_a_time() -> None:
    program = _Program(lambda _: 1e-9, most=10**6)
    _run_of(program)
    grown = [after / before for before, after in zip(program.runs, program.runs[1:])]
    assert max(grown) <= 8


def test_sampling_ends_with_the_budget_but_not_before_the_second_sample() -> None:
    assert len(_run_of(_Program(), budget_s=0.0, samples=12).samples_s) == 2
    # each sample moves the clock by 200 s and a little
    assert len(_run_of(_Program(), budget_s=500.0, samples=12).samples_s) == 3


def test_the_values_of_every_run_are_counted() -> None:
    program = _Program()
    assert len(program.runs) == 0
    run = _run_of(program)
    assert SURE * len(program.runs) == run.values_checked


@pytest.mark.parametrize("turn", [0, 1, 2, 4, 7])
def test_a_wrong_value_in_any_run_is_a_failure_and_no_run(turn: int) -> None:
    backend = _Backend(_Program(wrong_at=turn))
    failure = _measured(backend)
    assert isinstance(failure, Failure)
    assert FailureKind.WRONG_RESULT is failure.kind
    assert failure.message == "rank 1, element 7: 3.0, expected 4.0"
    assert (failure.launch, failure.found) == ("2.1", None)
    assert backend.released


def test_a_run_says_where_it_comes_from() -> None:
    run = _run_of(_Program())
    assert (run.launch, run.compile_s, run.clock) == ("2.1", 0.5, "host")
    assert (run.framework_path, run.versions) == ("/somewhere/scripted", build.VERSIONS)
    assert build.proof() == run.proof


def test_memory_that_the_framework_lacks_is_a_failure_with_its_bytes() -> None:
    backend = _Backend(_Program())
    lacking = MeasuringError(
        FailureKind.OUT_OF_MEMORY, "no room", needed_bytes=20, available_bytes=10
    )
    backend.program.fresh = _raising(lacking)  # type: ignore[method-assign]
    failure = _measured(backend)
    assert isinstance(failure, Failure)
    assert (failure.found, failure.needed_bytes, failure.available_bytes) == (Found.RAISED, 20, 10)


def _raising(error: Exception) -> Callable[[], None]:
    def fresh() -> None:
        raise error

    return fresh


def test_any_other_error_is_not_swallowed() -> None:
    backend = _Backend(_Program())
    backend.program.fresh = _raising(ZeroDivisionError())  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        _measured(backend)


def test_what_would_not_fit_is_refused_before_anything_is_touched(room: dict[str, int]) -> None:
    backend = _Backend(_Program(), MemoryNeed(needed_bytes=101))
    failure = _measured(backend)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.found) == (FailureKind.OUT_OF_MEMORY, Found.PREDICTED)
    assert (
        failure.needed_bytes,
        failure.available_bytes,
        failure.capacity_bytes,
    ) == (101, 100, 200)
    assert backend.program.events == []


def test_what_just_fits_is_measured_with_its_memory(room: dict[str, int]) -> None:
    run = _measured(_Backend(_Program(), MemoryNeed(needed_bytes=100)))
    assert isinstance(run, Run)
    assert (run.predicted_memory_bytes, run.peak_memory_bytes) == (110, 50)


@pytest.mark.parametrize(("reuses_kept", "kind"), [(True, Run), (False, Failure)])
def test_what_an_allocator_kept_of_earlier_cases_counts_where_it_is_used_again(
    room: dict[str, int], reuses_kept: bool, kind: type[Run | Failure]
) -> None:
    desk = Desk(
        backend=_Backend(_Program(), MemoryNeed(130, reuses_kept)), launch="1", opened_bytes=10
    )
    room["resident"] = 40
    assert kind is type(desk.measure(build.case(), build.plan()))


def test_where_the_device_has_memory_of_its_own_nothing_is_predicted(room: dict[str, int]) -> None:
    run = _measured(_Backend(_Program()))
    assert isinstance(run, Run)
    assert (run.predicted_memory_bytes, run.peak_memory_bytes) == (None, 77)


def test_where_the_system_does_not_tell_no_case_is_refused(
    room: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "headroom", lambda limit_bytes: None)
    assert isinstance(_measured(_Backend(_Program(), MemoryNeed(needed_bytes=BIG))), Run)

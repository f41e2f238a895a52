"""One case in one launch, with a scripted program: what is checked, refused, held and timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.case import Case
from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.machine import EnvironmentKey
from busbw.model.words import FailureKind, FoundBy
from busbw.worker import host
from busbw.worker.backends.base import MeasuringError, MemoryNeed
from busbw.worker.host import Headroom
from busbw.worker.measure import MeasureSession
from tests import build

from .scripted import SURE, WORLD, Backend, Program

BIG = 10**12


def _measured(
    backend: Backend,
    *,
    key: EnvironmentKey | None = None,
    case: Case | None = None,
    **plan: Any,
) -> Run | Failure:
    ordinary = {"samples": 4, "min_sample_s": 0.01, "budget_s": 1e6}
    desk = MeasureSession(backend=backend, launch=LaunchId.parse("2.1"))
    return desk.measure(case or build.case(), build.plan(**{**ordinary, **plan}), key)


def _run_of(program: Program, **options: Any) -> Run:
    run = _measured(Backend(program), **options)
    assert isinstance(run, Run), run
    return run


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A machine with 100 bytes left of 200, and a worker that stays as large as it began."""
    sizes = {"resident": 10}
    left = Headroom(available_bytes=100, capacity_bytes=200)
    monkeypatch.setattr(host, "headroom", lambda limit_bytes: left)
    monkeypatch.setattr(host, "resident_bytes", lambda: sizes["resident"])
    monkeypatch.setattr(host, "reset_peak", lambda: True)
    monkeypatch.setattr(host, "peak_bytes", lambda: 50)
    return sizes


def test_by_the_host_s_clock_a_run_has_slopes_and_what_a_call_costs() -> None:
    run = _run_of(Program(lambda _: 1.0, call_s=lambda _: 0.25))
    assert run.samples_s == (1.0,) * 4
    assert (run.clock, run.clocks_s, run.dispatch_s) == ("host", {"host": 1.0}, 0.25)
    assert (run.iterations, run.first_call_s, run.rank_times_s) == (1, 1.25, ())


def test_by_the_clock_dispatch_a_run_has_single_calls_and_no_cost_beside_them() -> None:
    case = build.case(protocol="dispatch/chain2")
    program = Program(lambda _: 1e-6, call_s=lambda _: 0.25)
    run = _run_of(program, case=case)
    assert (run.clock, run.iterations, run.dispatch_s) == ("dispatch", 1, None)
    assert run.samples_s == pytest.approx((0.250001,) * 4)
    assert run.clocks_s == pytest.approx({"dispatch": 0.250001})
    assert set(program.calls) == {1}


def test_a_launch_s_time_by_a_clock_is_the_p25_of_its_samples() -> None:
    times_s = [1.0, 1.0, 1.0, 8.0, 2.0, 6.0, 4.0]
    run = _run_of(Program(lambda turn: times_s[turn]))
    assert run.samples_s == (8.0, 2.0, 6.0, 4.0)
    assert run.clocks_s == {"host": 3.5}


def test_every_value_of_a_case_is_counted() -> None:
    program = Program()
    assert _run_of(program).values_checked == SURE * len(program.runs)


def test_a_run_says_what_its_time_went_to() -> None:
    phases_s = _run_of(Program(lambda _: 1.0)).phases_s
    assert list(phases_s) == [
        "prefaulting",
        "compiling",
        "warming_up",
        "laying_out",
        "checking",
        "waiting",
        "sampling",
    ]
    assert (phases_s["waiting"], phases_s["sampling"]) == (0.0, 4.0)


@pytest.mark.parametrize("turn", [0, 1, 2, 4, 7])
def test_a_wrong_value_in_any_run_is_a_failure_and_no_run(turn: int) -> None:
    backend = Backend(Program(wrong_at=turn))
    failure = _measured(backend)
    assert isinstance(failure, Failure)
    assert FailureKind.WRONG_RESULT is failure.kind
    assert failure.message == "rank 1, element 7: 3.0, expected 4.0"
    assert (failure.launch.text, failure.found) == ("2.1", None)
    assert backend.released


def test_a_run_says_where_it_comes_from() -> None:
    run = _run_of(Program())
    assert (run.launch.text, run.compile_s, run.clock) == ("2.1", 0.5, "host")
    assert run.compiled_memory_bytes == 4242
    assert (run.framework_path, run.versions) == ("/somewhere/scripted", build.VERSIONS)
    assert build.proof() == run.proof


def test_memory_that_the_framework_lacks_is_a_failure_with_its_bytes() -> None:
    backend = Backend(Program())
    lacking = MeasuringError(
        FailureKind.OUT_OF_MEMORY, "no room", needed_bytes=20, available_bytes=10
    )
    backend.program.fresh = _raising(lacking)  # type: ignore[method-assign]
    failure = _measured(backend)
    assert isinstance(failure, Failure)
    assert (failure.found, failure.needed_bytes, failure.available_bytes) == (
        FoundBy.RAISED,
        20,
        10,
    )


def _raising(error: Exception) -> Callable[[], None]:
    def fresh() -> None:
        raise error

    return fresh


def test_any_other_error_is_not_swallowed() -> None:
    backend = Backend(Program())
    backend.program.fresh = _raising(ZeroDivisionError())  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        _measured(backend)


def test_what_would_not_fit_is_refused_before_anything_is_touched(room: dict[str, int]) -> None:
    backend = Backend(Program(), MemoryNeed(needed_bytes=101))
    failure = _measured(backend)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.found) == (FailureKind.OUT_OF_MEMORY, FoundBy.PREDICTED)
    assert (
        failure.needed_bytes,
        failure.available_bytes,
        failure.capacity_bytes,
        failure.process_bytes,
    ) == (101, 100, 200, 10)
    assert backend.program.events == []


def test_what_just_fits_is_measured_with_its_memory(room: dict[str, int]) -> None:
    run = _measured(Backend(Program(), MemoryNeed(needed_bytes=100)))
    assert isinstance(run, Run)
    assert (run.predicted_memory_bytes, run.peak_memory_bytes) == (110, 50)


@pytest.mark.parametrize(("reuses_kept", "kind"), [(True, Run), (False, Failure)])
def test_what_an_allocator_kept_of_earlier_cases_counts_where_it_is_used_again(
    room: dict[str, int], reuses_kept: bool, kind: type[Run | Failure]
) -> None:
    desk = MeasureSession(
        backend=Backend(Program(), MemoryNeed(130, reuses_kept)),
        launch=LaunchId.parse("1"),
        opened_bytes=10,
    )
    room["resident"] = 40
    assert kind is type(desk.measure(build.case(), build.plan()))


def test_where_the_device_has_memory_of_its_own_nothing_is_predicted(room: dict[str, int]) -> None:
    run = _measured(Backend(Program()))
    assert isinstance(run, Run)
    assert (run.predicted_memory_bytes, run.peak_memory_bytes) == (None, 77)


def test_where_the_system_does_not_tell_no_case_is_refused(
    room: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "headroom", lambda limit_bytes: None)
    assert isinstance(_measured(Backend(Program(), MemoryNeed(needed_bytes=BIG))), Run)


def test_the_world_that_the_case_was_resolved_on_is_measured() -> None:
    assert isinstance(_measured(Backend(Program()), key=build.key()), Run)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device_kind": "Intel"}, "4 ranks of Intel in 1 processes"),
        ({"ranks": 3}, "3 ranks of AMD EPYC in 1 processes"),
        ({"processes": 2}, "4 ranks of AMD EPYC in 2 processes"),
    ],
)
def test_another_world_is_a_failure_that_names_both_before_anything_is_prepared(
    changes: dict[str, Any], said: str
) -> None:
    backend = Backend(Program(), there=replace(WORLD, **changes))
    failure = _measured(backend, key=build.key())
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.launch.text) == (FailureKind.WRONG_WORLD, "2.1")
    assert failure.message == f"{said}, expected 4 of AMD EPYC in 1"
    assert backend.prepared_cases == []


def test_more_devices_than_ranks_are_no_other_world() -> None:
    backend = Backend(Program(), there=replace(WORLD, ranks=8))
    assert isinstance(_measured(backend, key=build.key()), Run)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> MemoryNeed:
    """What a large case needs, where nobody says how much there is."""
    monkeypatch.setattr(host, "headroom", lambda limit_bytes: None)
    return MemoryNeed(needed_bytes=2**30, really_taken=False)


def test_a_large_case_s_memory_is_held_until_the_next_one_is_asked_for(large: MemoryNeed) -> None:
    backend = Backend(Program(), large)
    desk = MeasureSession(backend=backend, launch=LaunchId.parse("1"))
    assert isinstance(desk.measure(build.case(), build.plan(budget_s=1e6)), Run)
    assert not backend.released
    desk.measure(build.case(), build.plan(), build.key(device_kind="another world"))
    assert backend.released


def test_a_small_case_s_memory_is_given_back_at_once(large: MemoryNeed) -> None:
    small = replace(large, needed_bytes=2**30 - 1)
    backend = Backend(Program(), small)
    assert isinstance(_measured(backend), Run)
    assert backend.released


def test_a_large_case_that_failed_is_not_held(large: MemoryNeed) -> None:
    backend = Backend(Program(wrong_at=0), large)
    assert isinstance(_measured(backend), Failure)
    assert backend.released

"""One case in one launch of a scripted program: values, memory, clocks and injections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw import wire
from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, Run
from busbw.model.machine import EnvironmentKey
from busbw.model.words import FailureKind, OutOfMemoryDetection
from busbw.worker import device_clock, host
from busbw.worker.backends.base import MeasuringError, MemoryNeed
from busbw.worker.host import HostMemoryGuard
from busbw.worker.measure import CaseRequest, MeasuringWorker
from tests.helpers import build
from tests.unit.worker.scripted import (
    SURE,
    WORLD,
    DelayedProgram,
    ScriptedBackend,
    ScriptedProgram,
)

BIG = 10**12


def _request(
    *,
    case: Case | None = None,
    key: EnvironmentKey | None = None,
    injection: Injection | None = None,
    **plan: Any,
) -> dict[str, Any]:
    """Return a request for four samples; `plan` changes the plan."""
    changes = {"samples": 4, "min_sample_s": 0.01, "budget_s": 1e6, **plan}
    request = CaseRequest(
        case=case or build.case(), plan=build.plan(**changes), key=key, injection=injection
    )
    return {"request": "measure", **wire.to_json(request)}


def _session(
    program: ScriptedProgram, need: MemoryNeed | None = None
) -> tuple[MeasuringWorker, ScriptedBackend]:
    backend = ScriptedBackend(program, need)
    return _open(backend), backend


def _open(backend: ScriptedBackend) -> MeasuringWorker:
    return MeasuringWorker(backend, LaunchId.parse("2.1"), HostMemoryGuard(backend.all_gather))


def _measured(backend: ScriptedBackend, **request: Any) -> Any:
    """Measure a case; the Run or the Failure is typed so that a test needs no check of it."""
    return _result(_open(backend), **request)


def _result(session: MeasuringWorker, **request: Any) -> Run | Failure:
    """Measure a case; return the Run, or the Failure that `serve` would send."""
    try:
        return session.measure(_request(**request))
    except MeasuringError as error:
        return error.to_failure(session.launch)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Simulate a machine with 100 of 200 bytes free, and a worker of constant size."""
    sizes = {"resident": 10, "heap": 0}
    monkeypatch.setattr(host, "allocatable_bytes_now_and_at_most", lambda limit_bytes: (100, 200))
    monkeypatch.setattr(host, "resident_bytes", lambda: sizes["resident"])
    monkeypatch.setattr(host, "free_heap_bytes", lambda block_bytes: sizes["heap"])
    monkeypatch.setattr(host, "reset_peak_resident_bytes", lambda: True)
    monkeypatch.setattr(host, "peak_resident_bytes", lambda: 50)
    return sizes


def test_a_run_by_the_host_clock_has_slopes_as_samples_and_the_overhead_of_a_call() -> None:
    times_s = [1.0, 1.0, 1.0, 8.0, 2.0, 6.0, 4.0]
    program = ScriptedProgram(lambda turn: times_s[turn], call_s=lambda _: 0.25)
    run = _measured(ScriptedBackend(program))
    assert run.samples_s == (8.0, 2.0, 6.0, 4.0)
    # The p25 is the launch's time.
    assert (run.clock, run.clocks_s, run.dispatch_s) == ("host", {"host": 3.5}, 0.25)
    assert (run.iterations, run.rank_times_s) == (1, ())
    assert run.values_checked == SURE * len(program.runs)


@pytest.mark.parametrize("turn", [0, 1, 2, 4, 7])
def test_a_wrong_value_in_any_chain_of_a_case_is_a_failure_and_gives_no_run(turn: int) -> None:
    backend = ScriptedBackend(ScriptedProgram(wrong_at=turn))
    failure = _measured(backend)
    assert FailureKind.WRONG_RESULT is failure.kind
    assert failure.message == "rank 1, element 7: 3.0, expected 4.0"
    assert (str(failure.launch), failure.detected) == ("2.1", None)
    assert backend.released


def test_an_out_of_memory_error_of_the_framework_is_a_failure_with_the_bytes_of_the_error() -> None:
    lacking = MeasuringError(
        FailureKind.OUT_OF_MEMORY, "no room", needed_bytes=20, available_bytes=10
    )
    failure = _measured(_failing(lacking))
    assert failure.detected is OutOfMemoryDetection.RAISED
    assert (failure.needed_bytes, failure.available_bytes) == (20, 10)


def _failing(error: Exception) -> ScriptedBackend:
    """Return a back end whose program cannot initialize its values."""

    def initialize_values(first_call_name: str = "") -> None:
        raise error

    backend = ScriptedBackend(ScriptedProgram())
    backend.program.initialize_values = initialize_values  # type: ignore[method-assign]
    return backend


def test_an_unexpected_exception_while_a_case_is_measured_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        _measured(_failing(ZeroDivisionError()))


def test_a_case_that_does_not_fit_in_the_free_memory_is_refused_before_its_program_runs(
    sizes: dict[str, int],
) -> None:
    run = _measured(ScriptedBackend(ScriptedProgram(), MemoryNeed(needed_bytes=100)))
    assert (run.predicted_memory_bytes, run.peak_memory_bytes) == (110, 50)
    backend = ScriptedBackend(ScriptedProgram(), MemoryNeed(needed_bytes=101))
    failure = _measured(backend)
    assert (failure.kind, failure.detected) == (
        FailureKind.OUT_OF_MEMORY,
        OutOfMemoryDetection.PREDICTED,
    )
    assert (failure.needed_bytes, failure.available_bytes) == (101, 100)
    assert (failure.capacity_bytes, failure.process_bytes) == (200, 10)
    assert backend.program.events == []


def test_the_predicted_memory_counts_a_third_of_the_free_heap_as_reused(
    sizes: dict[str, int],
) -> None:
    sizes["heap"] = 60
    run = _measured(ScriptedBackend(ScriptedProgram(), MemoryNeed(needed_bytes=100)))
    assert run.predicted_memory_bytes == 10 + 100 - 20
    # That it fits is not left to chance.
    assert isinstance(
        _measured(ScriptedBackend(ScriptedProgram(), MemoryNeed(needed_bytes=101))), Failure
    )


@pytest.mark.parametrize(("reuses_kept_memory", "kind"), [(True, Run), (False, Failure)])
def test_memory_that_the_allocator_kept_counts_as_free_only_if_the_case_can_reuse_it(
    sizes: dict[str, int], reuses_kept_memory: bool, kind: type[Run | Failure]
) -> None:
    session, backend = _session(ScriptedProgram(), MemoryNeed(130, reuses_kept_memory))
    session.host_memory = HostMemoryGuard(backend.all_gather, initial_bytes=10)
    sizes["resident"] = 40
    assert kind is type(_result(session))


@pytest.mark.parametrize(("hosts", "available_bytes"), [(1, 25), (2, 50), (4, 100)])
def test_the_processes_of_a_host_share_its_free_memory(
    sizes: dict[str, int], hosts: int, available_bytes: int
) -> None:
    """Divide the free memory by the processes of a host."""
    key = build.key(processes=4, hosts=hosts)
    fits = ScriptedBackend(
        ScriptedProgram(), MemoryNeed(available_bytes), replace(WORLD, processes=4)
    )
    assert isinstance(_measured(fits, key=key), Run)
    failure = _measured(
        ScriptedBackend(ScriptedProgram(), MemoryNeed(available_bytes + 1)), key=key
    )
    assert failure.kind is FailureKind.OUT_OF_MEMORY
    assert (failure.available_bytes, failure.capacity_bytes) == (
        available_bytes,
        2 * available_bytes,
    )


def test_no_host_memory_is_predicted_for_a_device_that_has_its_own_memory(
    sizes: dict[str, int],
) -> None:
    run = _measured(ScriptedBackend(ScriptedProgram()))
    assert (run.predicted_memory_bytes, run.peak_memory_bytes) == (None, 77)


def test_a_worker_with_more_devices_than_ranks_measures_the_case() -> None:
    backend = ScriptedBackend(ScriptedProgram(), world=replace(WORLD, ranks=8))
    assert isinstance(_measured(backend, key=build.key()), Run)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> MemoryNeed:
    """Return the need of a large case on a machine with more memory."""
    monkeypatch.setattr(host, "allocatable_bytes_now_and_at_most", lambda limit_bytes: (BIG, BIG))
    return MemoryNeed(needed_bytes=2**30, is_real=False)


@pytest.mark.parametrize(
    ("less_bytes", "wrong_at", "held"), [(0, None, True), (1, None, False), (0, 0, False)]
)
def test_only_a_large_case_without_a_failure_keeps_its_memory_until_the_next_case(
    large: MemoryNeed, less_bytes: int, wrong_at: int | None, held: bool
) -> None:
    need = replace(large, needed_bytes=large.needed_bytes - less_bytes)
    session, backend = _session(ScriptedProgram(wrong_at=wrong_at), need)
    assert isinstance(_result(session), Run if wrong_at is None else Failure)
    assert backend.released is not held
    _result(session, key=build.key(device_kind="another world"))
    assert backend.released


DELAY = Injection(share=0.5)


def _interleaved(session: MeasuringWorker, injection: Injection | None = None) -> Run:
    has_enough_samples = session.open_case(_request(injection=injection))
    while not has_enough_samples:
        has_enough_samples = session.take_sample()
    return session.close_case()


@pytest.mark.parametrize("injection", [None, DELAY])
def test_interleaved_samples_give_the_same_run_as_uninterrupted_samples(
    injection: Injection | None,
) -> None:
    (interleaved, _), (at_once, _) = (
        _session(DelayedProgram(lambda turn: 2.0 + turn % 3, call_s=lambda turn: 0.25 * (turn % 2)))
        for _ in range(2)
    )
    measured = at_once.measure(_request(injection=injection))
    assert _interleaved(interleaved, injection) == measured


def test_opening_a_case_releases_the_case_that_was_open() -> None:
    session, backend = _session(ScriptedProgram(lambda _: 1.0))
    session.open_case(_request())
    session.take_sample()
    wrong_world = build.key(device_kind="another world")
    with pytest.raises(MeasuringError):
        session.open_case(_request(key=wrong_world))
    assert backend.released
    assert len(_interleaved(session).samples_s) == 4


def test_the_time_in_which_a_worker_waits_for_the_other_stack_counts_as_the_phase_waiting() -> None:
    program = ScriptedProgram(lambda _: 1.0)
    session, _ = _session(program)
    session.open_case(_request())
    for _ in range(3):
        program.clock_s += 1000.0
        session.take_sample()
    run = session.close_case()
    assert run.phases_s["waiting"] == 3000.0
    assert run.phases_s["sampling"] == 3.0
    assert run.phases_s["compiling"] == 0.0


@pytest.mark.parametrize("way", [_interleaved, lambda session: session.measure(_request())])
def test_the_memory_of_a_large_case_is_held_until_a_request_releases_it(
    large: MemoryNeed, way: Callable[[MeasuringWorker], Run]
) -> None:
    session, backend = _session(ScriptedProgram(lambda _: 1.0), large)
    way(session)
    assert not backend.released
    session.release_memory()
    assert backend.released


ON_DEVICE = build.case(protocol="device/chain2")


def _recorded(
    program: ScriptedProgram, *, lost: int = 0, samples: int = 4
) -> tuple[ScriptedBackend, Any]:
    """Measure by the device's clock; `lost` collectives are missing in each device's recording."""
    backend = ScriptedBackend(program)
    backend.lost = lost
    return backend, _measured(backend, case=ON_DEVICE, samples=samples)


def test_a_run_by_the_device_clock_has_its_samples_and_the_host_time_of_the_same_calls() -> None:
    # Two chains to warm up, one to calibrate and five samples come before the recording.
    program = ScriptedProgram(lambda turn: 1.0 if turn < 8 else 3.0, call_s=lambda _: 0.25)
    backend, run = _recorded(program, samples=5)
    assert (run.clock, run.samples_s) == ("device", (0.5,) * 5)
    assert run.clocks_s == {"host": 3.0, "device": 0.5}
    assert run.rank_times_s == (0.125, 0.25, 0.375, 0.5)
    assert run.dispatch_s == 0.25
    assert "recording" in run.phases_s
    assert run.values_checked == SURE * len(program.runs)
    assert (backend.recorded_runs, run.iterations) == ([2] * 5, 2)
    folder = backend.recorded_into
    assert folder.name and not folder.exists()


@pytest.mark.parametrize(("step", "iterations"), [(1, 156), (4, 156), (100, 100)])
def test_a_recording_has_a_limited_number_of_events_in_whole_steps_of_the_program(
    step: int, iterations: int
) -> None:
    backend, run = _recorded(ScriptedProgram(lambda _: 1e-6, step=step, most=10**5), samples=8)
    assert run.iterations == iterations
    assert 4 * sum(backend.recorded_runs) <= device_clock.MAX_RECORDED_COLLECTIVES


@pytest.mark.parametrize(
    ("options", "lost", "kind", "text"),
    [
        ({"wrong_at": 7}, 0, FailureKind.WRONG_RESULT, "rank 1, element 7"),
        # No other clock is read instead.
        (
            {},
            1,
            FailureKind.UNAVAILABLE,
            "device 3: expected 8 of all-reduce, got 7 of all-reduce",
        ),
        # A second round would not be exact.
        ({"most": 1}, 0, FailureKind.UNAVAILABLE, "a single collective"),
    ],
)
def test_a_measurement_by_the_device_clock_fails_after_a_wrong_result_or_an_incomplete_recording(
    options: dict[str, Any], lost: int, kind: FailureKind, text: str
) -> None:
    backend, failure = _recorded(ScriptedProgram(lambda _: 1.0, **options), lost=lost)
    assert (failure.kind, text in failure.message) == (kind, True)
    assert options != {"most": 1} or max(backend.program.runs) == 1

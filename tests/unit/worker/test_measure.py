"""One case in one launch, with a scripted program: what is checked, refused, held and timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, Run
from busbw.model.machine import EnvironmentKey
from busbw.model.words import Detection, Extra, FailureKind
from busbw.worker import device_clock, host
from busbw.worker.backends.base import MeasuringError, MemoryNeed
from busbw.worker.host import Headroom
from busbw.worker.measure import MeasureSession, delayed_ratio
from busbw.worker.sampling import Sampler
from tests.helpers import build
from tests.unit.worker.scripted import BESIDE_S, SURE, WORLD, Backend, Program, sampler

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


def _is_run(found: Run | Failure) -> Run:
    assert isinstance(found, Run), found
    return found


def _run_of(program: Program, **options: Any) -> Run:
    return _is_run(_measured(Backend(program), **options))


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A machine with 100 bytes left of 200, and a worker that stays as large as it began."""
    sizes = {"resident": 10, "heap": 0}
    left = Headroom(available_bytes=100, capacity_bytes=200)
    monkeypatch.setattr(host, "headroom", lambda limit_bytes: left)
    monkeypatch.setattr(host, "resident_bytes", lambda: sizes["resident"])
    monkeypatch.setattr(host, "kept_by_heap_bytes", lambda block_bytes: sizes["heap"])
    monkeypatch.setattr(host, "reset_peak", lambda: True)
    monkeypatch.setattr(host, "peak_bytes", lambda: 50)
    return sizes


def test_by_the_host_s_clock_a_run_has_slopes_and_what_a_call_costs() -> None:
    times_s = [1.0, 1.0, 1.0, 8.0, 2.0, 6.0, 4.0]
    program = Program(lambda turn: times_s[turn], call_s=lambda _: 0.25)
    run = _run_of(program)
    assert run.samples_s == (8.0, 2.0, 6.0, 4.0)
    # The p25 is the launch's time.
    assert (run.clock, run.clocks_s, run.dispatch_s) == ("host", {"host": 3.5}, 0.25)
    assert (run.iterations, run.rank_times_s) == (1, ())
    assert run.values_checked == SURE * len(program.runs)


def test_by_the_clock_dispatch_a_run_has_single_calls_and_no_cost_beside_them() -> None:
    case = build.case(protocol="dispatch/chain2")
    program = Program(lambda _: 1e-6, call_s=lambda _: 0.25)
    run = _run_of(program, case=case)
    assert (run.clock, run.iterations, run.dispatch_s) == ("dispatch", 1, None)
    assert run.samples_s == pytest.approx((0.250001,) * 4)
    assert run.clocks_s == pytest.approx({"dispatch": 0.250001})
    assert set(program.calls) == {1}


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
    assert (failure.launch.text, failure.detected) == ("2.1", None)
    assert backend.released


def test_a_run_says_where_it_comes_from() -> None:
    run = _run_of(Program(), key=build.key())
    assert (run.launch.text, run.compile_s, run.clock) == ("2.1", 0.5, "host")
    assert run.compiled_memory_bytes == 4242
    assert (run.framework_path, run.versions) == ("/somewhere/scripted", build.VERSIONS)
    assert build.proof() == run.proof


def test_memory_that_the_framework_lacks_is_a_failure_with_its_bytes() -> None:
    lacking = MeasuringError(
        FailureKind.OUT_OF_MEMORY, "no room", needed_bytes=20, available_bytes=10
    )
    failure = _measured(_failing(lacking))
    assert isinstance(failure, Failure)
    found = failure.detected, failure.needed_bytes, failure.available_bytes
    assert found == (Detection.RAISED, 20, 10)


def _failing(error: Exception) -> Backend:
    """One whose program cannot lay its values out."""

    def fresh() -> None:
        raise error

    backend = Backend(Program())
    backend.program.fresh = fresh  # type: ignore[method-assign]
    return backend


def test_any_other_error_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        _measured(_failing(ZeroDivisionError()))


def test_what_would_not_fit_is_refused_before_anything_is_touched(room: dict[str, int]) -> None:
    run = _is_run(_measured(Backend(Program(), MemoryNeed(needed_bytes=100))))
    assert (run.predicted_memory_bytes, run.peak_memory_bytes) == (110, 50)
    backend = Backend(Program(), MemoryNeed(needed_bytes=101))
    failure = _measured(backend)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.detected) == (FailureKind.OUT_OF_MEMORY, Detection.PREDICTED)
    assert (failure.needed_bytes, failure.available_bytes) == (101, 100)
    assert (failure.capacity_bytes, failure.process_bytes) == (200, 10)
    assert backend.program.events == []


def test_a_third_of_what_the_heap_keeps_is_expected_to_be_used_again(room: dict[str, int]) -> None:
    room["heap"] = 60
    run = _is_run(_measured(Backend(Program(), MemoryNeed(needed_bytes=100))))
    assert run.predicted_memory_bytes == 10 + 100 - 20
    # That it fits is not left to chance.
    assert isinstance(_measured(Backend(Program(), MemoryNeed(needed_bytes=101))), Failure)


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


@pytest.mark.parametrize(("hosts", "available_bytes"), [(1, 25), (2, 50), (4, 100)])
def test_processes_of_one_host_share_what_it_has_left(
    room: dict[str, int], hosts: int, available_bytes: int
) -> None:
    """Each needs its own part, and none could have what another takes."""
    key = build.key(processes=4, hosts=hosts)
    fits = Backend(Program(), MemoryNeed(available_bytes), replace(WORLD, processes=4))
    assert isinstance(_measured(fits, key=key), Run)
    failure = _measured(Backend(Program(), MemoryNeed(available_bytes + 1)), key=key)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.OUT_OF_MEMORY
    assert (failure.available_bytes, failure.capacity_bytes) == (
        available_bytes,
        2 * available_bytes,
    )


def test_where_the_device_has_memory_of_its_own_nothing_is_predicted(room: dict[str, int]) -> None:
    run = _run_of(Program())
    assert (run.predicted_memory_bytes, run.peak_memory_bytes) == (None, 77)


def test_where_the_system_does_not_tell_no_case_is_refused(
    room: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "headroom", lambda limit_bytes: None)
    assert isinstance(_measured(Backend(Program(), MemoryNeed(needed_bytes=BIG))), Run)


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


@pytest.mark.parametrize(
    ("less_bytes", "wrong_at", "held"), [(0, None, True), (1, None, False), (0, 0, False)]
)
def test_a_large_case_s_memory_is_held_until_the_next_one_and_no_other_s(
    large: MemoryNeed, less_bytes: int, wrong_at: int | None, held: bool
) -> None:
    need = replace(large, needed_bytes=large.needed_bytes - less_bytes)
    desk, backend = _desk(Program(wrong_at=wrong_at), need)
    assert isinstance(desk.measure(build.case(), _plan()), Run if wrong_at is None else Failure)
    assert backend.released is not held
    desk.measure(build.case(), _plan(), build.key(device_kind="another world"))
    assert backend.released


DELAY = Injection(extra=Extra.DELAY, seconds=0.5)


def _plan(**changes: Any) -> Any:
    return build.plan(**{"samples": 4, "budget_s": 1e6, **changes})


def _desk(program: Program, need: MemoryNeed | None = None) -> tuple[MeasureSession, Backend]:
    backend = Backend(program, need)
    return MeasureSession(backend=backend, launch=LaunchId.parse("2.1")), backend


def _in_turns(desk: MeasureSession, injection: Injection | None = None) -> Run:
    assert desk.open(build.case(), _plan(), None, injection) is None
    while not desk.enough:
        assert desk.turn() is None
    return _is_run(desk.close())


@pytest.mark.parametrize("injection", [None, DELAY])
def test_open_turns_and_close_give_the_same_as_measuring_at_once(
    injection: Injection | None,
) -> None:
    (by_turns, _), (at_once, _) = (
        _desk(Injected(lambda turn: 2.0 + turn % 3, call_s=lambda turn: 0.25 * (turn % 2)))
        for _ in range(2)
    )
    measured = at_once.measure(build.case(), _plan(), None, injection)
    assert _in_turns(by_turns, injection) == _is_run(measured)


def test_turns_say_when_there_are_enough_and_may_go_on() -> None:
    desk, backend = _desk(Program(lambda _: 1.0))
    desk.open(build.case(), _plan(samples=2))
    said = []
    for _ in range(4):
        desk.turn()
        said.append((desk.enough, backend.released))
    assert said == [(False, False), *[(True, False)] * 3]
    assert _is_run(desk.close()).samples_s == (1.0,) * 4
    assert backend.released


def test_to_open_a_case_while_another_is_open_lets_go_of_that_one() -> None:
    desk, backend = _desk(Program(lambda _: 1.0))
    desk.open(build.case(), _plan())
    desk.turn()
    wrong_world = build.key(device_kind="another world")
    assert isinstance(desk.open(build.case(), _plan(), wrong_world), Failure)
    assert backend.released
    assert len(_in_turns(desk).samples_s) == 4


def test_waiting_for_the_other_side_s_turn_has_a_phase_of_its_own() -> None:
    program = Program(lambda _: 1.0)
    desk, _ = _desk(program)
    desk.open(build.case(), _plan())
    for _ in range(3):
        program.clock_s += 1000.0
        desk.turn()
    run = _is_run(desk.close())
    assert run.phases_s["waiting"] == 3000.0
    assert run.phases_s["sampling"] == 3.0
    assert run.phases_s["compiling"] == 0.0


@pytest.mark.parametrize("way", [_in_turns, lambda desk: desk.measure(build.case(), _plan())])
def test_the_memory_of_a_large_case_is_held_until_it_is_let_go_of(
    large: MemoryNeed, way: Callable[[MeasureSession], Run]
) -> None:
    desk, backend = _desk(Program(lambda _: 1.0), large)
    _is_run(way(desk))
    assert not backend.released
    desk.release()
    assert backend.released


def test_a_run_names_what_was_injected_and_the_back_end_hears_of_it() -> None:
    desk, backend = _desk(Injected(lambda _: 1.25))
    run, plain = _in_turns(desk, QUARTER), _in_turns(desk)
    assert (run.injected, plain.injected) == ("delay:25%", "")
    assert (run.injected_ratio, plain.injected_ratio) == (1.25, None)
    assert backend.injections == [QUARTER, None]


@pytest.mark.parametrize(
    ("delay", "more", "expected"),
    [
        (Injection(extra=Extra.DELAY, share=25.0), "1 s", "25 s more"),
        (Injection(extra=Extra.DELAY, seconds=0.5), "1.1 s", "500 ms more"),
    ],
)
def test_a_launch_that_the_delay_did_not_slow_down_is_a_failure(
    delay: Injection, more: str, expected: str
) -> None:
    desk, _ = _desk(Injected(lambda _: float(more.split()[0])))
    failure = desk.measure(build.case(), _plan(), None, delay)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.UNAVAILABLE
    assert failure.message.startswith(
        f"the delay was not applied: with {delay.text} a collective took {more}, without it 1 s, "
        f"expected {expected}; "
    )


def test_a_limit_of_memory_is_measured_by_no_further_chains() -> None:
    desk, _ = _desk(Program(lambda _: 1.0))
    limit = Injection(extra=Extra.MEMORY, limit_bytes=2**40)
    assert _in_turns(desk, limit).injected_ratio is None


def test_a_case_that_an_injection_does_not_apply_to_is_an_ordinary_one() -> None:
    desk, backend = _desk(Program(lambda _: 1.0))
    run = _in_turns(desk, replace(DELAY, payloads=(1, 2)))
    assert (run.injected, run.samples_s) == ("", (1.0,) * 4)
    assert backend.injections == [None]


def test_an_injected_memory_limit_refuses_what_would_fit_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def headroom(limit_bytes: int | None) -> Headroom:
        room = limit_bytes or 10**9
        return Headroom(available_bytes=room, capacity_bytes=room)

    monkeypatch.setattr(host, "headroom", headroom)
    need = MemoryNeed(needed_bytes=101, really_taken=False)
    limit = Injection(extra=Extra.MEMORY, limit_bytes=100)
    desk, backend = _desk(Program(lambda _: 1.0), need)
    assert _in_turns(desk).injected == ""
    failure = desk.open(build.case(), _plan(), None, limit)
    assert failure is not None
    assert (failure.kind, failure.detected) == (FailureKind.OUT_OF_MEMORY, Detection.PREDICTED)
    assert (failure.needed_bytes, failure.available_bytes) == (101, 100)
    assert len(backend.prepared_cases) == 1


ON_DEVICE = build.case(protocol="device/chain2")


def _recorded(
    program: Program, *, lost: int = 0, samples: int = 4
) -> tuple[Backend, Run | Failure]:
    """Measure by the device's clock; `lost` collectives are missing in each device's recording."""
    backend = Backend(program)
    backend.lost = lost
    return backend, _measured(backend, case=ON_DEVICE, samples=samples)


def test_by_the_device_s_clock_a_run_has_its_samples_and_the_host_s_time_of_the_same_calls() -> (
    None
):
    # Two chains to warm up, one to calibrate and five samples come before the recording.
    program = Program(lambda turn: 1.0 if turn < 8 else 3.0, call_s=lambda _: 0.25)
    backend, measured = _recorded(program, samples=5)
    run = _is_run(measured)
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
def test_a_recording_stays_readable_in_whole_steps(step: int, iterations: int) -> None:
    program = Program(lambda _: 1e-6, step=step, most=10**5)
    backend, run = _recorded(program, samples=8)
    assert _is_run(run).iterations == iterations
    assert 4 * sum(backend.recorded_runs) <= device_clock.MOST_EVENTS


@pytest.mark.parametrize(
    ("options", "lost", "kind", "said"),
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
def test_without_a_right_and_whole_recording_there_is_no_time_on_the_device_s_clock(
    options: dict[str, Any], lost: int, kind: FailureKind, said: str
) -> None:
    backend, failure = _recorded(Program(lambda _: 1.0, **options), lost=lost)
    assert isinstance(failure, Failure)
    assert (failure.kind, said in failure.message) == (kind, True)
    assert options != {"most": 1} or max(backend.program.runs) == 1


QUARTER = Injection(extra=Extra.DELAY, share=0.25)


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
@pytest.mark.parametrize("more", [1.1, 1.25, 7.0])
def test_it_is_the_time_with_the_work_over_that_without_it(more: float, single: bool) -> None:
    # What a call costs beyond its collectives does not count.
    program = Injected(lambda _: more, call_s=lambda _: 0.0 if single else 0.5)
    found = _begun(program, single=single)
    assert delayed_ratio(found, QUARTER) == pytest.approx(more)
    assert "sampling" not in found.phases.spent_s
    seconds = 4 * (1 + more + (0.0 if single else 2.0))
    assert found.phases.spent_s["injecting"] == pytest.approx(seconds)


def test_a_stall_of_one_chain_does_not_count() -> None:
    program = Injected(lambda turn: 50.0 if turn == 7 else 1.25)
    assert delayed_ratio(_begun(program, samples=5), QUARTER) == 1.25


def test_with_and_without_take_turns_and_change_their_order() -> None:
    program = Injected(lambda _: 1.25)
    found = _begun(program)
    before = len(program.with_work)
    delayed_ratio(found, QUARTER)
    # An empty chain and one of collectives each.
    assert program.with_work[before::2] == [False, True, True, False, False, True, True, False]
    assert program.with_work[before::2] == program.with_work[before + 1 :: 2]
    assert program.injecting


@pytest.mark.parametrize(
    ("budget_s", "turns"),
    # A few even if they need more time, and one of what takes very long.
    [(1e6, 40), (30 * BESIDE_S, 8), (5 * BESIDE_S, 5), (BESIDE_S, 2), (1.0, 1)],
)
def test_turns_are_as_many_as_the_time_for_samples_allows(budget_s: float, turns: int) -> None:
    program = Injected(lambda _: 1.25)
    found = _begun(program, samples=40, budget_s=budget_s)
    before = len(program.runs)
    assert delayed_ratio(found, QUARTER) == 1.25
    # A turn is two chains, each laid out and compared.
    assert len(program.runs) - before == 2 * turns


def test_a_delay_is_refused_where_the_clock_cannot_tell_a_chain_from_an_empty_call() -> None:
    found = _begun(Injected(lambda _: 1.25))
    found.program = Program(lambda _: 0.0, call_s=lambda _: 0.5)
    with pytest.raises(MeasuringError, match="the delay cannot be measured"):
        delayed_ratio(found, QUARTER)

"""A case on the device's clock, with a scripted program and a scripted profiler."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.words import FailureKind
from busbw.traces.event import RecordedCollective
from busbw.worker import device_clock
from busbw.worker.backends.base import Reader
from busbw.worker.measure import MeasureSession
from tests import build

from .scripted import SURE, Backend, Program

DEVICE = build.case(protocol="device/chain2")


def _measured(backend: Backend, *, samples: int = 4) -> Run | Failure:
    plan = build.plan(samples=samples, min_sample_s=0.01, budget_s=1e6)
    return MeasureSession(backend=backend, launch=LaunchId.parse("2.1")).measure(DEVICE, plan)


class _Recorder:
    """In the place of the profiler: what the back end ran while it was recording, by rank."""

    def __init__(self, backend: Backend, *, lost: int = 0) -> None:
        self.backend = backend
        self.lost = lost

    def read(
        self, reader: Reader, kind: str, *, with_overlap: bool
    ) -> tuple[RecordedCollective, ...]:
        assert not reader(lambda name, plane, stats: True)
        assert not with_overlap
        count = sum(self.backend.recorded_runs) - self.lost
        ones = [(rank, place) for rank in range(4) for place in range(count)]
        return tuple(
            RecordedCollective(
                kind=kind,
                name="all-reduce",
                host="here",
                device=rank,
                call="",
                start_s=float(place),
                duration_s=0.125 * (1 + rank),
                payload_bytes=None,
            )
            for rank, place in ones
        )


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Callable[..., _Recorder]:
    def install(backend: Backend, **options: int) -> _Recorder:
        found = _Recorder(backend, **options)
        monkeypatch.setattr(device_clock, "read", found.read)
        return found

    return install


def test_by_the_device_s_clock_a_run_has_its_samples_and_the_host_s_time_beside_it(
    recorder: Callable[..., _Recorder],
) -> None:
    backend = Backend(Program(lambda _: 1.0, call_s=lambda _: 0.25))
    recorder(backend)
    run = _measured(backend)
    assert isinstance(run, Run), run
    assert (run.clock, run.samples_s) == ("device", (0.5,) * 4)
    assert run.clocks_s == {"host": 1.0, "device": 0.5}
    assert run.rank_times_s == (0.125, 0.25, 0.375, 0.5)
    assert run.dispatch_s == 0.25
    assert "recording" in run.phases_s


def test_the_host_s_time_beside_the_device_s_is_that_of_the_recorded_calls(
    recorder: Callable[..., _Recorder],
) -> None:
    # Two chains to warm up, one to calibrate and four samples come before the recording.
    program = Program(lambda turn: 1.0 if turn < 7 else 3.0, call_s=lambda _: 0.25)
    backend = Backend(program)
    recorder(backend)
    run = _measured(backend)
    assert isinstance(run, Run), run
    assert run.clocks_s == {"host": 3.0, "device": 0.5}


def test_as_many_chains_are_recorded_as_were_sampled_each_of_two_collectives_at_least(
    recorder: Callable[..., _Recorder],
) -> None:
    backend = Backend(Program(lambda _: 1.0))
    recorder(backend)
    run = _measured(backend, samples=5)
    assert isinstance(run, Run), run
    assert (backend.recorded_runs, run.iterations) == ([2] * 5, 2)
    assert len(run.samples_s) == 5


@pytest.mark.parametrize(("step", "iterations"), [(1, 156), (4, 156), (100, 100)])
def test_a_recording_stays_readable_in_whole_steps(
    recorder: Callable[..., _Recorder], step: int, iterations: int
) -> None:
    backend = Backend(Program(lambda _: 1e-6, step=step, most=10**5))
    recorder(backend)
    run = _measured(backend, samples=8)
    assert isinstance(run, Run), run
    assert run.iterations == iterations
    assert 4 * sum(backend.recorded_runs) <= device_clock.MOST_EVENTS


def test_what_is_recorded_is_checked_as_everything_else(
    recorder: Callable[..., _Recorder],
) -> None:
    backend = Backend(Program(lambda _: 1.0))
    recorder(backend)
    run = _measured(backend)
    assert isinstance(run, Run), run
    assert run.values_checked == SURE * len(backend.program.runs)
    wrong = Backend(Program(lambda _: 1.0, wrong_at=7))
    recorder(wrong)
    failure = _measured(wrong)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.WRONG_RESULT


def test_events_that_the_profiler_lost_are_a_failure_and_no_other_clock_is_read_instead(
    recorder: Callable[..., _Recorder],
) -> None:
    backend = Backend(Program(lambda _: 1.0))
    recorder(backend, lost=1)
    failure = _measured(backend)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.UNAVAILABLE
    assert "expected 8 on each of 4" in failure.message


def test_a_chain_whose_second_round_would_not_be_exact_has_no_time_on_the_device_s_clock(
    recorder: Callable[..., _Recorder],
) -> None:
    backend = Backend(Program(lambda _: 1.0, most=1))
    recorder(backend)
    failure = _measured(backend)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.UNAVAILABLE
    assert "a single collective" in failure.message
    assert max(backend.program.runs) == 1


def test_a_recording_is_removed_when_it_is_read(recorder: Callable[..., _Recorder]) -> None:
    backend = Backend(Program(lambda _: 1.0))
    recorder(backend)
    _measured(backend)
    assert backend.recorded_into.name
    assert not backend.recorded_into.exists()

"""Measures a case in a launch: checks memory and devices, prepares the program, takes samples.

This module has the order of these steps. It knows no particular framework.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from busbw import wire
from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Failure, HostPace, Injection, LaunchId, Plan, Run
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import Clock, InjectionKind
from busbw.worker import backends, memory
from busbw.worker.backends.base import Backend, MeasuringError, MemoryNeed, Program
from busbw.worker.injection import delayed_ratio
from busbw.worker.sampling import MIN_SAMPLES, PhaseTimer, Sampler, launch_time_s

if TYPE_CHECKING:
    from busbw.worker.device_clock import RecordedTimes

# The measurement of a case, step by step. First it is sent None, and later True to take another
# sample. After each of these it yields whether there are enough samples. It is sent False to end
# the measurement, and then it returns the Run.
_CaseMeasurement = Generator[bool, "bool | None", Run]


@dataclass(frozen=True, kw_only=True)
class CaseRequest:
    """A request to measure a case.

    `plan` says how long to measure. `key` names the devices on which the case must run; with None
    the devices are not checked. `injection` is extra work to add, if any. `pace` is how fast the
    case was in the previous launch, so that a suitable number of iterations is known; None in the
    first launch.
    """

    case: Case
    plan: Plan
    key: EnvironmentKey | None
    injection: Injection | None = None
    pace: HostPace | None = None

    @classmethod
    def read(cls, request: Mapping[str, Any]) -> CaseRequest:
        """Return the CaseRequest that the driver sent as `request`, an object of JSON.

        Raises WireError if a value is missing, unknown or invalid.
        """
        values = {name: value for name, value in request.items() if name != "request"}
        return wire.from_json(cls, values, "request")


@dataclass
class MeasureSession:
    """Measures cases with a back end, one after the other, for the launch `launch`.

    `host_memory` is the memory that cases of this process can take.
    """

    backend: Backend
    launch: LaunchId
    host_memory: memory.HostMemory = field(init=False)
    _held_programs: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _measurement: _CaseMeasurement | None = None

    def __post_init__(self) -> None:
        self.host_memory = memory.HostMemory(self.backend.all_gather)

    def measure(self, request: CaseRequest) -> Run | Failure:
        """Measure a case from beginning to end, and return its Run or the Failure."""
        answer = self.open_case(request)
        while answer is False:
            answer = self.take_sample()
        return answer if isinstance(answer, Failure) else self.close_case()

    def open_case(self, request: CaseRequest) -> Failure | bool:
        """Prepare a case, warm it up, and return whether it has enough samples, or its Failure.

        The memory of a large case is held until the next case begins or the process ends. If it
        were freed earlier, a virtual machine could return it to its host, and the next case would
        have to wait for the host.
        """
        self.release_memory()
        self._measurement = self._measure(request)
        has_enough: Failure | bool = self._resume(None)
        return has_enough

    def take_sample(self, request: object = None) -> Failure | bool:
        """Take a sample of the open case.

        Returns whether there are enough samples now, or the Failure of the case. The `request` has
        no values, because a case is open already.
        """
        has_enough: Failure | bool = self._resume(True)
        return has_enough

    def close_case(self, request: object = None) -> Run | Failure:
        """End the open case, and return its Run or its Failure. The `request` has no values."""
        result: Run | Failure = self._resume(False)
        return result

    def release_memory(self, request: object = None) -> None:
        """Release the memory that is held for the last case. The `request` has no values."""
        self._held_programs.close()

    def _resume(self, is_sample_requested: bool | None) -> Any:
        """Send a value to the measurement of the open case, and return what it yields or returns.

        `_CaseMeasurement` says what the values mean. If the measurement raises a MeasuringError,
        return the error as a Failure.
        """
        assert self._measurement is not None
        try:
            return self._measurement.send(is_sample_requested)
        except StopIteration as end:
            return end.value
        except MeasuringError as error:
            return error.to_failure(self.launch)

    def _measure(self, request: CaseRequest) -> _CaseMeasurement:
        """Measure a case step by step, as `_CaseMeasurement` says."""
        case, injection = request.case, request.injection
        if injection is not None and not injection.applies_to(case):
            injection = None
        need = self.backend.memory_need(case)
        self._check_memory_and_devices(request, need, injection)
        phases = PhaseTimer(self.backend.now_s)
        predicted = self.host_memory.predicted_peak_bytes(need, case.payload_bytes)
        with phases.enter("prefaulting"):
            if need is not None:
                self.host_memory.prefault(need)
        is_peak_reset = predicted is not None and memory.reset_peak()
        # Nested phases are charged to themselves. What is left of this block is compiling.
        with phases.enter("compiling"), contextlib.ExitStack() as stack:
            program = stack.enter_context(self.backend.prepare_program(case, injection))
            backend = self.backend
            sampler = Sampler(program, request.plan, backend.now_s, phases, backend.all_gather)
            sampler.warm_up_and_calibrate(
                single_calls=case.clock is Clock.DISPATCH, pace=request.pace
            )
            yield from _take_samples(sampler)
            ratio = None
            if injection is not None and injection.extra is InjectionKind.DELAY:
                ratio = delayed_ratio(sampler, injection)
            run = self._make_run(case, program, sampler)
            peak_bytes = memory.peak_bytes() if is_peak_reset else program.device_peak_bytes()
            if need is not None and need.needed_bytes >= memory.LARGE_BYTES:
                self._held_programs = stack.pop_all()
        return replace(
            run,
            peak_memory_bytes=peak_bytes,
            predicted_memory_bytes=predicted,
            injected=injection.text if injection else "",
            injected_ratio=ratio,
            phases_s=phases.spent_s,
        )

    def _check_memory_and_devices(
        self, request: CaseRequest, need: MemoryNeed | None, injection: Injection | None
    ) -> None:
        """Raise MeasuringError if the case does not fit into memory, or for unexpected devices.

        `need` is the host memory that the case needs, None if its devices have their own memory.
        """
        limit_bytes = request.plan.memory_limit_bytes
        if injection is not None and injection.extra is InjectionKind.MEMORY:
            limit_bytes = injection.limit_bytes
        if need is not None:
            self.host_memory.check_fits(need, limit_bytes, request.key)
        if request.key is not None:
            self.backend.reachable_devices().check_matches(request.case, request.key)

    def _make_run(self, case: Case, program: Program, sampler: Sampler) -> Run:
        """Return the Run of a case, given the sampler that has all samples.

        With the clock `device`, first record calls, and take the samples from the recording.
        """
        samples = sampler.finish()
        run = Run(
            launch=self.launch,
            iterations=samples.iterations,
            samples_s=samples.samples_s,
            compile_s=program.compile_s,
            values_checked=sampler.values_checked,
            proof=program.proof,
            clock=case.clock,
            framework_path=self.backend.framework_path,
            versions=self.backend.versions,
            clocks_s={case.clock.value: launch_time_s(samples.samples_s)},
            dispatch_s=samples.dispatch_s,
            compiled_memory_bytes=program.compiled_memory_bytes,
            extra=sampler.extra,
        )
        if case.clock is not Clock.DEVICE:
            return run
        from busbw.worker import device_clock

        calls = max(MIN_SAMPLES, len(samples.samples_s))
        recorded = device_clock.record_calls(self.backend, case, sampler, samples, calls)
        return _with_device_times(run, recorded, sampler, samples.short_chain_s or 0.0)


def _take_samples(sampler: Sampler) -> Generator[bool, bool | None, None]:
    """Take a sample each time that True is sent; yield whether there are enough samples."""
    while True:
        with sampler.phases.enter("waiting"):
            is_requested = yield sampler.has_enough_samples
        if not is_requested:
            break
        sampler.take_sample()


def _with_device_times(run: Run, recorded: RecordedTimes, sampler: Sampler, short_s: float) -> Run:
    """Return `run` with samples by the device's clock in place of samples by the host's clock.

    The time by the host's clock of the same calls is kept in `clocks_s`. `short_s` is the time of a
    short chain, which is subtracted from the time of each call.
    """
    host_s = [sampler.slope_s(call_s, short_s, recorded.iterations) for call_s in recorded.calls_s]
    return replace(
        run,
        iterations=recorded.iterations,
        samples_s=recorded.samples_s,
        values_checked=sampler.values_checked,
        rank_times_s=recorded.rank_times_s,
        clocks_s={
            Clock.DEVICE.value: launch_time_s(recorded.samples_s),
            Clock.HOST.value: launch_time_s(host_s),
        },
    )


def open_session(options: Any) -> MeasureSession:
    """Import the framework, open its devices, and return the session that measures with them.

    `options` are the options of the worker's command line. Raises MeasuringError UNAVAILABLE if the
    framework cannot measure here.
    """
    # Two stacks of the same version may differ, so each side of a pair keeps its own programs.
    parts = "programs", options.framework, options.launch.side
    os.environ[variables.PROGRAMS_VARIABLE] = os.path.join(sys.path[0], *parts)
    backend = backends.load(options.framework, options.device, options.ranks, options.member)
    return MeasureSession(backend=backend, launch=options.launch)


def probe(session: MeasureSession, request: Mapping[str, Any]) -> Probe:
    """Return the devices that the framework finds, and the memory that a worker needs at least."""
    return replace(session.backend.probe(), least_memory_bytes=memory.minimum_limit_bytes())


def measure(session: MeasureSession, request: Mapping[str, Any]) -> Run | Failure:
    """Measure the case of `request` from beginning to end, and return its Run or its Failure."""
    return session.measure(CaseRequest.read(request))


def open_case(session: MeasureSession, request: Mapping[str, Any]) -> Failure | bool:
    """Open the case of `request`, so that its samples can be interleaved with another worker's.

    Returns whether the case has enough samples, which is False before the first sample, or its
    Failure.
    """
    return session.open_case(CaseRequest.read(request))

"""Measure one case in one launch: check memory and devices, prepare the program, take samples.

Knows the order of these steps and no framework.
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
from busbw.model.launch import Failure, Injection, LaunchId, Pace, Plan, Run
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import Clock, Extra
from busbw.worker import backends, memory
from busbw.worker.backends.base import Backend, MeasuringError, MemoryNeed, Program
from busbw.worker.injection import delayed_ratio
from busbw.worker.sampling import MIN_SAMPLES, Phases, Sampler, launch_time_s

if TYPE_CHECKING:
    from busbw.worker.device_clock import Recorded

# Yields whether there are enough samples, and is sent whether to take another sample.
_Steps = Generator[bool, "bool | None", Run]


@dataclass(frozen=True, kw_only=True)
class CaseRequest:
    """A case to measure, and how.

    `key` names the devices on which the case was resolved, None for any. `pace` is that of the
    launch before, which saves finding the length of chains again.
    """

    case: Case
    plan: Plan
    key: EnvironmentKey | None
    injection: Injection | None = None
    pace: Pace | None = None

    @classmethod
    def read(cls, request: Mapping[str, Any]) -> CaseRequest:
        """Read the values of a request of the driver. Raises WireError."""
        values = {name: value for name, value in request.items() if name != "request"}
        return wire.from_json(cls, values, "request")


@dataclass
class MeasureSession:
    """Measures case after case with one back end."""

    backend: Backend
    launch: LaunchId
    host_memory: memory.HostMemory = field(init=False)
    _held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _steps: _Steps | None = None

    def __post_init__(self) -> None:
        self.host_memory = memory.HostMemory(self.backend.all_gather)

    def measure(self, request: CaseRequest) -> Run | Failure:
        """Measure a case from beginning to end."""
        answer = self.open(request)
        while answer is False:
            answer = self.take_sample()
        return answer if isinstance(answer, Failure) else self.close()

    def open(self, request: CaseRequest) -> Failure | bool:
        """Prepare a case; return whether it has enough samples, or its failure.

        The memory of a large case is held until the next case begins or the process ends: a virtual
        machine returns memory to its host that no process has used for a while.
        """
        self.release()
        self._steps = self._measure(request)
        answer: Failure | bool = self._step(None)
        return answer

    def take_sample(self, request: object = None) -> Failure | bool:
        """Take a sample of the open case; return whether there are enough, or the failure."""
        answer: Failure | bool = self._step(True)
        return answer

    def close(self, request: object = None) -> Run | Failure:
        """End the open case."""
        result: Run | Failure = self._step(False)
        return result

    def release(self, request: object = None) -> None:
        """Release the memory of the last case."""
        self._held.close()

    def _step(self, another: bool | None) -> Any:
        """Go on with the open case until it has an answer, or its result."""
        assert self._steps is not None
        try:
            return self._steps.send(another)
        except StopIteration as end:
            return end.value
        except MeasuringError as error:
            return error.failure(self.launch)

    def _measure(self, request: CaseRequest) -> _Steps:
        case, injection = request.case, request.injection
        if injection is not None and not injection.applies_to(case):
            injection = None
        need = self.backend.memory_need(case)
        self._check(request, need, injection)
        phases = Phases(self.backend.now_s)
        predicted = self.host_memory.predicted_peak_bytes(need, case.payload_bytes)
        with phases.enter("prefaulting"):
            if need is not None:
                self.host_memory.prefault(need)
        is_counted = predicted is not None and memory.reset_peak()
        with phases.enter("compiling"), contextlib.ExitStack() as stack:
            program = stack.enter_context(self.backend.prepare(case, injection))
            backend = self.backend
            sampler = Sampler(program, request.plan, backend.now_s, phases, backend.all_gather)
            sampler.begin(single=case.clock is Clock.DISPATCH, pace=request.pace)
            yield from _take_samples(sampler)
            ratio = None
            if injection is not None and injection.extra is Extra.DELAY:
                ratio = delayed_ratio(sampler, injection)
            run = self._run(case, program, sampler)
            peak_bytes = memory.peak_bytes() if is_counted else program.device_peak_bytes()
            if need is not None and need.needed_bytes >= memory.LARGE_BYTES:
                self._held = stack.pop_all()
        return replace(
            run,
            peak_memory_bytes=peak_bytes,
            predicted_memory_bytes=predicted,
            injected=injection.text if injection else "",
            injected_ratio=ratio,
            phases_s=phases.spent_s,
        )

    def _check(
        self, request: CaseRequest, need: MemoryNeed | None, injection: Injection | None
    ) -> None:
        """Raise MeasuringError if memory is lacking or the devices are not the expected ones."""
        limit_bytes = request.plan.memory_limit_bytes
        if injection is not None and injection.extra is Extra.MEMORY:
            limit_bytes = injection.limit_bytes
        if need is not None:
            self.host_memory.check_fits(need, limit_bytes, request.key)
        if request.key is not None:
            self.backend.world().check(request.case, request.key)

    def _run(self, case: Case, program: Program, sampler: Sampler) -> Run:
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
        recorded = device_clock.record(self.backend, case, sampler, samples, calls)
        return _with_device_times(run, recorded, sampler, samples.short_s or 0.0)


def _take_samples(sampler: Sampler) -> Generator[bool, bool | None, None]:
    while True:
        with sampler.phases.enter("waiting"):
            is_requested = yield sampler.is_done
        if not is_requested:
            break
        sampler.take_sample()


def _with_device_times(run: Run, recorded: Recorded, sampler: Sampler, short_s: float) -> Run:
    """Replace the samples by recorded ones, and keep the host's times of the same calls."""
    host_s = [sampler.slope(call_s, short_s, recorded.iterations) for call_s in recorded.calls_s]
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
    """Import the framework, and open its devices. Raises MeasuringError."""
    # Two stacks of the same version may differ, so each side of a pair keeps its own programs.
    parts = "programs", options.framework, options.launch.part
    os.environ[variables.PROGRAMS] = os.path.join(sys.path[0], *parts)
    backend = backends.load(options.framework, options.device, options.ranks, options.member)
    return MeasureSession(backend=backend, launch=options.launch)


def probe(session: MeasureSession, request: Mapping[str, Any]) -> Probe:
    """Look for devices."""
    return replace(session.backend.probe(), least_memory_bytes=memory.minimum_limit_bytes())


def measure(session: MeasureSession, request: Mapping[str, Any]) -> Run | Failure:
    """Measure a case from beginning to end."""
    return session.measure(CaseRequest.read(request))


def open_case(session: MeasureSession, request: Mapping[str, Any]) -> Failure | bool:
    """Open a case that is interleaved with another worker's; return whether it has samples."""
    return session.open(CaseRequest.read(request))

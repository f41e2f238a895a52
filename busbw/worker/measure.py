"""Measures a case in a launch: checks memory and devices, prepares the program, takes samples.

This module has the order of these steps, for all frameworks. The module also measures how much an
injected delay slows a collective down: chains with the delay are interleaved with chains without
the delay. A chain is a call of the program that runs several iterations of the collective.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from busbw import wire
from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Injection, LaunchId, MeasurementPlan, PreviousPace, Run
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import Clock, seconds_text
from busbw.worker import backends, host
from busbw.worker.backends.base import (
    Backend,
    MemoryNeed,
    Program,
    check_devices,
    slowest_process_time_s,
    unavailable,
)
from busbw.worker.sampling import PhaseTimer, Sampler, launch_time_s

# Fewer pairs of chains cannot show a difference of a few percent.
_MIN_CHAIN_PAIRS = 5

# The ratio of the measured delay to the requested delay must be at least this large. On virtual
# devices ranks share cores, so that the real delay of a rank is inexact.
_MIN_DELAY_RATIO = 0.25

_UNMEASURABLE_DELAY_MESSAGE = (
    "the delay cannot be measured: without it a chain takes no longer than an empty call; "
    "repeat it on an idle machine, or with a shorter delay"
)

# The seconds of a short and of a long chain.
_ShortAndLongS = tuple[float, float]


def measure_injected_ratio(sampler: Sampler, injection: Injection) -> float:
    """Measure how much an injected delay slows a collective down.

    Args:
        sampler: the sampler of the case's program, which has taken all samples.
        injection: the requested delay.

    Returns:
        The time of a collective with the delay, divided by its time without the delay.

    Raises:
        MeasuringError: UNAVAILABLE if less than a quarter of the requested delay is measured, or if
            the clock cannot distinguish a chain without the delay from the shortest chain.

    """
    with sampler.phases.enter("injecting"):
        pairs = _time_with_and_without_delay(sampler)
    short_s = launch_time_s([short for pair in pairs for short, _ in pair])
    slopes_s = [
        [sampler.slope_s(long, min(short, short_s), sampler.iterations) for short, long in pair]
        for pair in pairs
    ]
    without_s, with_s = map(statistics.median, zip(*slopes_s))
    if without_s <= 0:
        raise unavailable(_UNMEASURABLE_DELAY_MESSAGE)
    requested_s = injection.delay_s(without_s)
    if with_s - without_s < _MIN_DELAY_RATIO * requested_s:
        raise unavailable(
            f"the delay was not applied: with {injection.text} a collective took "
            f"{seconds_text(with_s)}, without it {seconds_text(without_s)}, expected "
            f"{seconds_text(requested_s)} more; repeat it on an idle machine, or with a longer "
            "delay"
        )
    ratio = statistics.median(with_s / without_s for without_s, with_s in slopes_s)
    if ratio <= 0:
        raise unavailable(_UNMEASURABLE_DELAY_MESSAGE)
    return ratio


def _time_with_and_without_delay(sampler: Sampler) -> list[tuple[_ShortAndLongS, _ShortAndLongS]]:
    """Time a short and a long chain, without and with the injected delay, several times.

    Returns a list of pairs: the chain times without the delay, and the chain times with the delay.
    In every second pair the delayed chains are timed first. There are as many pairs as the
    sampler's plan has samples, or fewer if the plan's budget of time ends before. A case that takes
    very long has only a single pair.
    """
    begun_s, spent_s = sampler.now_s(), 0.0
    pairs: list[tuple[_ShortAndLongS, _ShortAndLongS]] = []
    while not sampler.may_stop(len(pairs), spent_s, _MIN_CHAIN_PAIRS):
        is_delayed_first = len(pairs) % 2 > 0
        times: dict[bool, _ShortAndLongS] = {}
        for has_delay in (is_delayed_first, not is_delayed_first):
            sampler.program.is_injecting = has_delay
            times[has_delay] = sampler.time_short_and_long_chain(sampler.iterations)
        pairs.append((times[False], times[True]))
        spent_s = slowest_process_time_s(sampler.all_gather, sampler.now_s() - begun_s)
    sampler.program.is_injecting = True
    return pairs


# A generator that measures a case. At first, and after each sample, it yields whether the case has
# enough samples. The generator takes a sample when it is sent True, and returns the Run when it is
# sent False.
_CaseMeasurement = Generator[bool, bool, Run]


@dataclass(frozen=True, kw_only=True)
class CaseRequest:
    """A request of the driver to measure a case.

    Attributes:
        plan: The number of samples, and the limits of time and memory.
        key: The environment key of the devices on which the case must run; None if the devices are
            not checked.
        injection: A loss to cause on purpose, None for no loss.
        pace: The speed of the case in the previous launch, from which the number of iterations of a
            chain is chosen; None in the first launch.

    """

    case: Case
    plan: MeasurementPlan
    key: EnvironmentKey | None
    injection: Injection | None = None
    pace: PreviousPace | None = None


@dataclass
class MeasuringWorker:
    """The state of a worker that measures cases, one after the other, with the back end.

    Each public method answers a kind of request from the driver. The method gets the request as an
    object of JSON, and raises MeasuringError if the case fails.

    Attributes:
        launch: The id of the worker's launch, which is stored in each Run.
        host_memory: The memory that cases can take from the host.

    """

    backend: Backend
    launch: LaunchId
    host_memory: host.HostMemoryGuard
    _held_programs: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _measurement: _CaseMeasurement = field(init=False)

    def measure(self, request: Mapping[str, Any]) -> Run:
        """Measure a case with all its samples, and return the Run.

        `request` has the fields of a CaseRequest, as JSON.
        """
        has_enough_samples = self.open_case(request)
        while not has_enough_samples:
            has_enough_samples = self.take_sample()
        return self.close_case()

    def open_case(self, request: Mapping[str, Any]) -> bool:
        """Begin to measure a case: compile its program and warm up, without taking a sample.

        The memory of a large case is held until the next case begins or the process ends. If the
        memory were freed earlier, a virtual machine could return it to its host, and the next case
        would have to wait for the host.

        `request` has the fields of a CaseRequest, as JSON. Returns False: the case does not have
        enough samples yet. Raises WireError if a field is missing, unknown or invalid.
        """
        self.release_memory()
        values = {name: value for name, value in request.items() if name != "request"}
        self._measurement = self._measure(wire.from_json(CaseRequest, values, "request"))
        return next(self._measurement)

    def take_sample(self, request: object = None) -> bool:
        """Take a sample of the open case, and return whether the case has enough samples now.

        `request` has no values, and is not used.
        """
        return self._measurement.send(True)

    def close_case(self, request: object = None) -> Run:
        """End the measurement of the case that `open_case` began, and return its Run.

        `request` has no values, and is not used.
        """
        try:
            self._measurement.send(False)
        except StopIteration as end:
            run: Run = end.value
        return run

    def release_memory(self, request: object = None) -> None:
        """Release the memory of the last large case, which `open_case` explains.

        `request` has no values, and is not used.
        """
        self._held_programs.close()

    def _measure(self, request: CaseRequest) -> _CaseMeasurement:
        """Return a generator that measures a case, and that takes a sample when it is sent True.

        At first, and after each sample, the generator yields whether the case has enough samples.
        When it is sent False, it ends and returns the Run.
        """
        case, injection = request.case, request.injection
        if injection is not None and not injection.applies_to(case):
            injection = None
        memory_need = self.backend.memory_need(case)
        self._check_memory_and_devices(request, memory_need, injection)
        phases = PhaseTimer(self.backend.now_s)
        predicted = self.host_memory.predicted_peak_bytes(memory_need, case.payload_bytes)
        with phases.enter("prefaulting"):
            if memory_need is not None:
                self.host_memory.prefault(memory_need)
        is_peak_reset = predicted is not None and host.reset_peak_resident_bytes()
        # The phases inside this block count for themselves. The rest of the block is compiling.
        with phases.enter("compiling"), contextlib.ExitStack() as stack:
            program = stack.enter_context(self.backend.prepare_program(case, injection))
            backend = self.backend
            sampler = Sampler(program, request.plan, backend.now_s, phases, backend.all_gather)
            sampler.warm_up_and_calibrate(
                times_single_calls=case.clock is Clock.DISPATCH, pace=request.pace
            )
            yield from _take_samples(sampler)
            ratio = None
            if injection is not None and injection.share is not None:
                ratio = measure_injected_ratio(sampler, injection)
            run = self._make_run(case, program, sampler)
            peak_bytes = (
                host.peak_resident_bytes() if is_peak_reset else program.device_peak_bytes()
            )
            if memory_need is not None and memory_need.needed_bytes >= host.LARGE_NEED_BYTES:
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
        self, request: CaseRequest, memory_need: MemoryNeed | None, injection: Injection | None
    ) -> None:
        """Raise MeasuringError if the case lacks memory or the expected devices.

        Args:
            request: the case, with its plan and the expected devices.
            memory_need: the host memory that the case needs, None if its devices have their own
                memory.
            injection: a loss that applies to the case, None for no loss. For the kind MEMORY, the
                limit of the injection replaces the limit of the plan.

        """
        limit_bytes = request.plan.memory_limit_bytes
        if injection is not None and injection.limit_bytes is not None:
            limit_bytes = injection.limit_bytes
        if memory_need is not None:
            self.host_memory.check_fits(memory_need, limit_bytes, request.key)
        if request.key is not None:
            check_devices(self.backend.current_environment_key(), request.case, request.key)

    def _make_run(self, case: Case, program: Program, sampler: Sampler) -> Run:
        """Return the Run of a case, from the sampler that has taken all samples.

        With the clock `device`, the samples are replaced: this method calls the program again while
        the profiler records, and reads the times of the new samples from the recording.
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
            extra=sampler.extra_values,
        )
        if case.clock is not Clock.DEVICE:
            return run
        from busbw.worker import device_clock

        return device_clock.record_device_times(
            self.backend, case, sampler, run, samples.short_chain_s
        )


def _take_samples(sampler: Sampler) -> Generator[bool, bool, None]:
    """Yield whether the sampler has enough samples, and take a sample each time True is sent."""
    while True:
        with sampler.phases.enter("waiting"):
            is_requested = yield sampler.has_enough_samples
        if not is_requested:
            break
        sampler.take_sample()


def make_worker_state(options: Any) -> MeasuringWorker:
    """Import the framework, open its devices, and return the worker's state for measuring.

    `options` are the options of the worker's command line (an `argparse.Namespace`). Raises
    MeasuringError UNAVAILABLE if the framework cannot measure on this machine.
    """
    # Two stacks of the same version may differ, so each side of a pair has a cache of its own.
    os.environ[variables.PROGRAMS_VARIABLE] = os.path.join(
        sys.path[0], "programs", options.framework, options.launch.side
    )
    backend = backends.load(options.framework, options.device, options.ranks, options.member)
    return MeasuringWorker(backend, options.launch, host.HostMemoryGuard(backend.all_gather))


def probe(worker: MeasuringWorker, request: Mapping[str, Any]) -> Probe:
    """Return the devices that the framework finds, and the versions of its packages.

    `worker` is the worker's state. `request` has no values, and is not used.
    """
    return worker.backend.probe()

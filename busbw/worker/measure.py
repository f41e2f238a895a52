"""Measures a case in a launch: checks memory and devices, prepares the program, takes samples.

This module has the order of these steps. It knows no particular framework. It also measures how
much an injected delay slows a collective down: chains with the delay are interleaved with chains
without the delay.
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
from busbw.model.launch import HostPace, Injection, LaunchId, Plan, Run
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import Clock, InjectionKind, seconds_text
from busbw.worker import backends, host
from busbw.worker.backends.base import (
    Backend,
    MemoryNeed,
    Program,
    check_devices,
    slowest_process_s,
    unavailable,
)
from busbw.worker.sampling import PhaseTimer, Sampler, launch_time_s

# Fewer pairs of chains cannot show a difference of a few percent.
_MIN_PAIRS = 5

# The ratio of the measured delay to the requested delay must be at least this large. On virtual
# devices ranks share cores, so that the real delay of a rank is inexact.
_MIN_DELAY_RATIO = 0.25

_NOT_MEASURABLE = (
    "the delay cannot be measured: without it a chain takes no longer than an empty call; "
    "repeat it on an idle machine, or with a shorter delay"
)

# The seconds of a short and of a long chain.
_ChainTimes = tuple[float, float]


def delayed_ratio(sampler: Sampler, injection: Injection) -> float:
    """Return the time of a collective with the delay, divided by its time without the delay.

    Raises MeasuringError UNAVAILABLE if less than a quarter of the requested delay is measured, or
    if the clock cannot distinguish a chain without the delay from the shortest chain.
    """
    with sampler.phases.enter("injecting"):
        pairs = _time_pairs(sampler)
    short_s = launch_time_s([short for pair in pairs for short, _ in pair])
    slopes_s = [
        [sampler.slope_s(long, min(short, short_s), sampler.iterations) for short, long in pair]
        for pair in pairs
    ]
    without_s, with_s = map(statistics.median, zip(*slopes_s))
    if without_s <= 0:
        raise unavailable(_NOT_MEASURABLE)
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
        raise unavailable(_NOT_MEASURABLE)
    return ratio


def _time_pairs(sampler: Sampler) -> list[tuple[_ChainTimes, _ChainTimes]]:
    """Return pairs of chain times: first without the delay, second with the delay.

    Which of the two is measured first alternates from pair to pair. There are as many pairs as the
    plan has samples, fewer if the plan's budget ends, and a single pair for a case that takes very
    long.
    """
    begun_s, spent_s = sampler.now_s(), 0.0
    pairs: list[tuple[_ChainTimes, _ChainTimes]] = []
    while not sampler.may_stop(len(pairs), spent_s, _MIN_PAIRS):
        is_delayed_first = len(pairs) % 2 > 0
        times: dict[bool, _ChainTimes] = {}
        for is_delayed in (is_delayed_first, not is_delayed_first):
            sampler.program.is_injecting = is_delayed
            times[is_delayed] = sampler.time_short_and_long_chain(sampler.iterations)
        pairs.append((times[False], times[True]))
        spent_s = slowest_process_s(sampler.all_gather, sampler.now_s() - begun_s)
    sampler.program.is_injecting = True
    return pairs


# A generator that measures a case. At first, and after each sample, it yields whether there are
# enough samples. It takes a sample when it is sent True, and returns the Run when it is sent False.
_CaseMeasurement = Generator[bool, bool, Run]


@dataclass(frozen=True, kw_only=True)
class CaseRequest:
    """A request to measure a case.

    `plan` has the number of samples and the limits of time and memory. `key` is the environment
    that the case expects; with None the devices are not checked. `injection` is a loss to cause on
    purpose, None for no loss. `pace` is the speed of the case in the previous launch, from which
    the number of iterations of a chain is chosen; None in the first launch.
    """

    case: Case
    plan: Plan
    key: EnvironmentKey | None
    injection: Injection | None = None
    pace: HostPace | None = None


@dataclass
class CaseMeasurer:
    """Measures cases with a back end, one after the other, in a launch.

    Each public method is the operation of a request from the driver: it gets the request as an
    object of JSON, and raises MeasuringError if the case fails.
    """

    backend: Backend
    launch: LaunchId
    host_memory: host.HostMemory
    _held_programs: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _measurement: _CaseMeasurement = field(init=False)

    def measure(self, request: Mapping[str, Any]) -> Run:
        """Measure the CaseRequest in `request` from beginning to end, and return the Run."""
        has_enough_samples = self.open_case(request)
        while not has_enough_samples:
            has_enough_samples = self.take_sample()
        return self.close_case()

    def open_case(self, request: Mapping[str, Any]) -> bool:
        """Compile and warm up the case of the CaseRequest in `request`; the next call samples it.

        The memory of a large case is held until the next case begins or the process ends. If it
        were freed earlier, a virtual machine could return it to its host, and the next case would
        have to wait for the host.

        Returns whether the case has enough samples, which is False. Raises WireError if a value of
        the request is missing, unknown or invalid.
        """
        self.release_memory()
        values = {name: value for name, value in request.items() if name != "request"}
        self._measurement = self._measure(wire.from_json(CaseRequest, values, "request"))
        return next(self._measurement)

    def take_sample(self, request: object = None) -> bool:
        """Take a sample of the open case, and return whether it has enough samples now.

        `request` has no values, and is not used.
        """
        return self._measurement.send(True)

    def close_case(self, request: object = None) -> Run:
        """End the measurement of the open case, and return its Run.

        `request` has no values, and is not used.
        """
        try:
            self._measurement.send(False)
        except StopIteration as end:
            run: Run = end.value
        return run

    def release_memory(self, request: object = None) -> None:
        """Release the memory that is held for the last case.

        `request` has no values, and is not used.
        """
        self._held_programs.close()

    def _measure(self, request: CaseRequest) -> _CaseMeasurement:
        """Measure a case; `_CaseMeasurement` explains what is yielded, sent and returned."""
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
        is_peak_reset = predicted is not None and host.reset_peak()
        # Nested phases are charged to themselves. What is left of this block is compiling.
        with phases.enter("compiling"), contextlib.ExitStack() as stack:
            program = stack.enter_context(self.backend.prepare_program(case, injection))
            backend = self.backend
            sampler = Sampler(program, request.plan, backend.now_s, phases, backend.all_gather)
            sampler.warm_up_and_calibrate(
                times_single_calls=case.clock is Clock.DISPATCH, pace=request.pace
            )
            yield from _take_samples(sampler)
            ratio = None
            if injection is not None and injection.extra is InjectionKind.DELAY:
                ratio = delayed_ratio(sampler, injection)
            run = self._make_run(case, program, sampler)
            peak_bytes = host.peak_bytes() if is_peak_reset else program.device_peak_bytes()
            if need is not None and need.needed_bytes >= host.LARGE_BYTES:
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
        `injection` can be a lower limit of memory.
        """
        limit_bytes = request.plan.memory_limit_bytes
        if injection is not None and injection.extra is InjectionKind.MEMORY:
            limit_bytes = injection.limit_bytes
        if need is not None:
            self.host_memory.check_fits(need, limit_bytes, request.key)
        if request.key is not None:
            check_devices(self.backend.reachable_devices(), request.case, request.key)

    def _make_run(self, case: Case, program: Program, sampler: Sampler) -> Run:
        """Return the Run of a case, given the sampler that has all samples.

        With the clock `device`, calls are recorded now, and samples are read from the recording.
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
    """Yield whether there are enough samples, and take a sample each time that True is sent."""
    while True:
        with sampler.phases.enter("waiting"):
            is_requested = yield sampler.has_enough_samples
        if not is_requested:
            break
        sampler.take_sample()


def open_session(options: Any) -> CaseMeasurer:
    """Import the framework, open its devices, and return the session that measures with them.

    `options` are the options of the worker's command line. Raises MeasuringError UNAVAILABLE if the
    framework cannot measure here.
    """
    # Two stacks of the same version may differ, so each side of a pair has a cache of its own.
    os.environ[variables.PROGRAMS_VARIABLE] = os.path.join(
        sys.path[0], "programs", options.framework, options.launch.side
    )
    backend = backends.load(options.framework, options.device, options.ranks, options.member)
    return CaseMeasurer(backend, options.launch, host.HostMemory(backend.all_gather))


def probe(session: CaseMeasurer, request: Mapping[str, Any]) -> Probe:
    """Return the devices and the software that the framework finds.

    `request` has no values, and is not used.
    """
    return session.backend.probe()

"""One case in one launch: prepare, prove, read its time; knows the order and no framework."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, LaunchId, Pace, Plan, Run
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.words import Clock, Extra, FailureKind, seconds_text
from busbw.worker import backends, host
from busbw.worker.backends.base import (
    AbstractBackend,
    AbstractProgram,
    MeasuringError,
    MemoryNeed,
    unavailable,
)
from busbw.worker.sampling import LEAST_SAMPLES, Phases, Sampler, launch_time_s
from busbw.worker.serve import value_of

if TYPE_CHECKING:
    from busbw.worker.device_clock import Recorded

LARGE_BYTES = 2**30

# Of an injection's turns: fewer would say little of a few percent.
LEAST_TURNS = 5

# The share of a requested delay that must be seen. Ranks share cores, so a delay is inexact.
_LEAST_OF_DELAY = 0.25

# Of the samples of several processes at the same time.
_Pair = tuple[float, float]
_Turns = Generator[bool, "bool | None", "Run | Failure"]


@dataclass
class MeasureSession:
    """Measures case after case with one back end, and caches what must be asked only once."""

    backend: AbstractBackend
    launch: LaunchId
    opened_bytes: int | None = field(default_factory=host.resident_bytes)
    enough: bool = False
    _held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _turns: _Turns | None = None

    def measure(
        self,
        case: Case,
        plan: Plan,
        key: EnvironmentKey | None = None,
        injection: Injection | None = None,
        pace: Pace | None = None,
    ) -> Run | Failure:
        """The Run of `case`, or why there is none; `key` is the world it was resolved on.

        With the `pace` of an earlier launch it is not found out again.
        """
        failure = self.open(case, plan, key, injection, pace)
        while failure is None and not self.enough:
            failure = self.turn()
        return failure or self.close()

    def open(
        self,
        case: Case,
        plan: Plan,
        key: EnvironmentKey | None = None,
        injection: Injection | None = None,
        pace: Pace | None = None,
    ) -> Failure | None:
        """Prepare `case` for its turns.

        The memory of a large case is held until the next one wants it, or the process ends: what
        nobody has for a while, a virtual machine gives back to its host.
        """
        self._held.close()
        applied = injection if injection is not None and injection.applies_to(case) else None
        self._turns = self._measuring(case, plan, key, applied, pace)
        return self._go_on(None)

    def turn(self) -> Failure | None:
        return self._go_on(True)

    def close(self, request: object = None) -> Run | Failure:
        """End the open case."""
        ended = self._step(False)
        assert ended is not None
        return ended

    def release(self, request: object = None) -> None:
        """Release the memory of the last case."""
        self._held.close()

    def _go_on(self, another: bool | None) -> Failure | None:
        ended = self._step(another)
        assert not isinstance(ended, Run)
        return ended

    def _step(self, another: bool | None) -> Run | Failure | None:
        """Begin with None. None while the case stays open, else what it ended with."""
        assert self._turns is not None
        try:
            self.enough = self._turns.send(another)
        except StopIteration as end:
            ended: Run | Failure = end.value
            return ended
        except MeasuringError as error:
            return error.failure(self.launch)
        return None

    def _measuring(
        self,
        case: Case,
        plan: Plan,
        key: EnvironmentKey | None,
        injection: Injection | None,
        pace: Pace | None,
    ) -> _Turns:
        """Yields after each turn whether there are enough; is sent whether to take another one."""
        if injection is not None and injection.extra is Extra.MEMORY:
            plan = replace(plan, memory_limit_bytes=injection.limit_bytes)
        need = self.backend.memory_need(case)
        if need is not None:
            self.check_fits(need, plan, key)
        if key is not None:
            self.backend.world().check(case, key)
        phases = Phases(self.backend.now_s)
        predicted = self._predicted_peak_bytes(case, need) if need and need.really_taken else None
        with phases.of("prefaulting"):
            if need is not None:
                self._prefault(need)
        counted = predicted is not None and host.reset_peak()
        with phases.of("compiling"), contextlib.ExitStack() as prepared:
            program = prepared.enter_context(self.backend.prepared(case, injection))
            sampler = Sampler(
                program, plan, self.backend.now_s, phases, gathered=self.backend.gathered
            )
            sampler.begin(single=case.clock is Clock.DISPATCH, pace=pace)
            yield from _asked_turns(sampler)
            delay = injection if injection and injection.extra is Extra.DELAY else None
            ratio = delayed_ratio(sampler, delay) if delay else None
            run = replace(
                self._run(case, program, sampler),
                peak_memory_bytes=host.peak_bytes() if counted else program.device_peak_bytes(),
                predicted_memory_bytes=predicted,
                injected=injection.text if injection else "",
                injected_ratio=ratio,
            )
            if need is not None and need.needed_bytes >= LARGE_BYTES:
                self._held = prepared.pop_all()
        return replace(run, phases_s=phases.spent_s)

    def _run(self, case: Case, program: AbstractProgram, sampler: Sampler) -> Run:
        slopes = sampler.sampled()
        recorded = None
        if case.clock is Clock.DEVICE:
            from busbw.worker import device_clock

            # The recorded calls are checked, too, and count among the checked values.
            calls = max(LEAST_SAMPLES, len(slopes.samples_s))
            recorded = device_clock.record(self.backend, case, sampler, slopes, calls)
        run = Run(
            launch=self.launch,
            iterations=slopes.iterations,
            samples_s=slopes.samples_s,
            compile_s=program.compile_s,
            values_checked=sampler.values_checked,
            proof=program.proof,
            clock=case.clock.value,
            framework_path=self.backend.framework_path,
            versions=self.backend.versions,
            clocks_s={case.clock.value: launch_time_s(slopes.samples_s)},
            dispatch_s=slopes.dispatch_s,
            compiled_memory_bytes=program.compiled_memory_bytes,
            signature=_signature_text(sampler),
        )
        if recorded is not None:
            run = _by_device(run, recorded, sampler, slopes.short_s or 0.0)
        return run

    def check_fits(self, need: MemoryNeed, plan: Plan, key: EnvironmentKey | None) -> None:
        """Raise MeasuringError for too little memory, in all processes, before any touches memory.

        Those of one host share what it has left.
        """
        room = host.headroom(plan.memory_limit_bytes)
        if room is None:
            return
        kept, sharing = self._kept_bytes(need), key.processes // key.hosts if key else 1
        left = [one // sharing + kept for one in (room.available_bytes, room.capacity_bytes)]
        available, capacity = (
            int(min(of_all)) for of_all in zip(*self.backend.gathered(list(map(float, left))))
        )
        if need.needed_bytes <= available:
            return
        raise MeasuringError(
            FailureKind.OUT_OF_MEMORY,
            f"{need.needed_bytes} bytes needed, {available} available",
            needed_bytes=need.needed_bytes,
            available_bytes=available,
            capacity_bytes=capacity,
            process_bytes=host.resident_bytes(),
            predicted=True,
        )

    def _kept_bytes(self, need: MemoryNeed) -> int:
        now = host.resident_bytes()
        if not need.reuses_kept or now is None or self.opened_bytes is None:
            return 0
        return max(0, now - self.opened_bytes)

    def _prefault(self, need: MemoryNeed) -> None:
        if not need.really_taken or host.headroom(None) is None:
            return
        wanted = need.needed_bytes - self._kept_bytes(need)
        if wanted >= LARGE_BYTES:
            host.prefault(wanted, host.cores())

    def _predicted_peak_bytes(self, case: Case, need: MemoryNeed) -> int | None:
        now = host.resident_bytes()
        # Most of it is in pieces that are too small.
        kept = max(self._kept_bytes(need), host.kept_by_heap_bytes(case.payload_bytes) // 3)
        return None if now is None else now + max(0, need.needed_bytes - kept)


def _signature_text(sampler: Sampler) -> str:
    if sampler.signature is None:
        return ""
    # What is scripted has no need of numpy.
    from busbw.worker.backends.signature import text_of

    return text_of(*sampler.signature)


def _by_device(run: Run, recorded: Recorded, sampler: Sampler, short_s: float) -> Run:
    """By the device's clock; the host's times the same calls, so that they can be compared."""
    host_s = [sampler.slope(one, recorded.iterations, short_s) for one in recorded.calls_s]
    return replace(
        run,
        iterations=recorded.iterations,
        samples_s=recorded.samples_s,
        rank_times_s=recorded.rank_times_s,
        clocks_s={
            Clock.DEVICE.value: launch_time_s(recorded.samples_s),
            Clock.HOST.value: launch_time_s(host_s),
        },
    )


def _asked_turns(sampler: Sampler) -> Generator[bool, bool | None, None]:
    while True:
        with sampler.phases.of("waiting"):
            wanted = yield sampler.enough
        if not wanted:
            break
        sampler.turn()


def delayed_ratio(sampler: Sampler, injection: Injection) -> float:
    """Return the time of a collective with the delay over that without it, of calls in turn.

    Raises MeasuringError UNAVAILABLE where less than a quarter of the requested delay can be seen,
    or the clock cannot tell.
    """
    with sampler.phases.of("injecting"):
        turns = _turns(sampler)
    short_s = launch_time_s([short for turn in turns for short, _ in turn])
    gained_s = [[long - min(short, short_s) for short, long in turn] for turn in turns]
    without_s, with_s = (
        statistics.median(times_s) / sampler.collectives for times_s in zip(*gained_s)
    )
    if without_s <= 0:
        raise unavailable(
            "the delay cannot be measured: without it a chain takes no longer than an empty call; "
            "repeat it on an idle machine, or with a shorter delay"
        )
    wanted_s = injection.delay_s(without_s)
    if with_s - without_s < _LEAST_OF_DELAY * wanted_s:
        raise unavailable(
            f"the delay was not applied: with {injection.text} a collective took "
            f"{seconds_text(with_s)}, without it {seconds_text(without_s)}, expected "
            f"{seconds_text(wanted_s)} more; repeat it on an idle machine, or with a longer delay"
        )
    return statistics.median(with_s / without_s for without_s, with_s in gained_s)


def _turns(sampler: Sampler) -> list[tuple[_Pair, _Pair]]:
    """As many as samples, if there is as much time for them; one of what takes very long."""
    begun_s, spent_s = sampler.now_s(), 0.0
    found: list[tuple[_Pair, _Pair]] = []
    while not sampler.is_enough(len(found), spent_s, LEAST_TURNS):
        pairs = {
            on: sampler.beside(injecting=on) for on in (len(found) % 2 > 0, len(found) % 2 < 1)
        }
        found.append((pairs[False], pairs[True]))
        spent_s = sampler.slowest(sampler.now_s() - begun_s)
    return found


def open_session(options: Any) -> MeasureSession:
    """Import the framework, and open its devices. Raises MeasuringError."""
    # Two stacks of the same version may differ: each side has its own.
    parts = "programs", options.framework, options.launch.part
    os.environ[variables.PROGRAMS] = os.path.join(sys.path[0], *parts)
    backend = backends.load(options.framework, options.device, options.ranks, options.member)
    return MeasureSession(backend=backend, launch=options.launch)


def probe(session: MeasureSession, request: Mapping[str, Any]) -> Probe:
    """Look for devices."""
    return replace(session.backend.probe(), least_memory_bytes=host.least_limit_bytes())


def measure(session: MeasureSession, request: Mapping[str, Any]) -> Run | Failure:
    """Measure a case from beginning to end."""
    return session.measure(*_case_of(request))


def open_case(session: MeasureSession, request: Mapping[str, Any]) -> Failure | bool:
    """Begin a case that is measured a sample at a time, alternately with another worker's."""
    return session.open(*_case_of(request)) or session.enough


def turn(session: MeasureSession, request: Mapping[str, Any]) -> Failure | bool:
    """Take a sample of the open case; return whether there are enough."""
    return session.turn() or session.enough


def _case_of(
    request: Mapping[str, Any],
) -> tuple[Case, Plan, EnvironmentKey, Injection | None, Pace | None]:
    return (
        value_of(request, "case", Case),
        value_of(request, "plan", Plan),
        value_of(request, "key", EnvironmentKey),
        value_of(request, "injection", Injection) if request.get("injection") else None,
        value_of(request, "pace", Pace) if request.get("pace") else None,
    )

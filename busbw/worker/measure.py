"""One case in one launch: prepare and prove, then read its time from the clock that it is for.

Knows the order and nothing of any framework: that is behind `backends.base`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace

from busbw.model import (
    Case,
    Clock,
    EnvironmentKey,
    Extra,
    Failure,
    FailureKind,
    FoundBy,
    Injection,
    LaunchId,
    Plan,
    Run,
)
from busbw.worker import host, memory, recording
from busbw.worker.backends.base import AbstractBackend, AbstractProgram, MeasuringError
from busbw.worker.phases import Phases
from busbw.worker.sampling import LEAST_SAMPLES, Sampled, Sampler, launch_time_s

LARGE_BYTES = 2**30

_Turns = Generator[bool, bool, "Run | Failure"]


@dataclass(frozen=True)
class _Timed:
    """The case's samples, and what was seen beside them."""

    iterations: int
    samples_s: tuple[float, ...]
    clocks_s: dict[str, float]
    dispatch_s: float | None
    rank_times_s: tuple[float, ...] = ()
    over_ranks_s: Mapping[str, float] = field(default_factory=dict)
    hidden_share: float | None = None


@dataclass
class MeasureSession:
    """Measures case after case with one back end, and keeps what must not be asked twice."""

    backend: AbstractBackend
    launch: LaunchId
    opened_bytes: int | None = field(default_factory=memory.resident_bytes)
    enough: bool = False
    _held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _turns: _Turns | None = None

    def measure(
        self,
        case: Case,
        plan: Plan,
        key: EnvironmentKey | None = None,
        injection: Injection | None = None,
    ) -> Run | Failure:
        """The Run of `case`, or the Failure that stands for it; `key` is the world asked for."""
        failure = self.open(case, plan, key, injection)
        while failure is None and not self.enough:
            failure = self.turn()
        return failure or self.close()

    def open(
        self,
        case: Case,
        plan: Plan,
        key: EnvironmentKey | None = None,
        injection: Injection | None = None,
    ) -> Failure | None:
        """Prepare `case` for its turns.

        The memory of a large case is held until the next one wants it, or the process ends: what
        nobody has for a while, a virtual machine gives back to its host.
        """
        self._held.close()
        applied = injection if injection is not None and injection.applies_to(case) else None
        self._turns = self._measuring(case, plan, key, applied)
        return _failure(self._step(next))

    def turn(self) -> Failure | None:
        """One sample more of the case that is open."""
        return _failure(self._step(lambda turns: turns.send(True)))

    def close(self) -> Run | Failure:
        """What the open case's turns gave."""
        ended = self._step(lambda turns: turns.send(False))
        assert ended is not None
        return ended

    def release(self) -> None:
        """Give back the memory of a large case at once."""
        self._held.close()

    def _step(self, step: Callable[[_Turns], bool]) -> Run | Failure | None:
        """None while the case stays open, else what it ended with."""
        assert self._turns is not None
        try:
            self.enough = step(self._turns)
        except StopIteration as end:
            ended: Run | Failure = end.value
            return ended
        except MeasuringError as error:
            return Failure(
                kind=error.kind,
                message=str(error),
                launch=self.launch,
                found=FoundBy.RAISED if error.kind is FailureKind.OUT_OF_MEMORY else None,
                needed_bytes=error.needed_bytes,
                available_bytes=error.available_bytes,
            )
        return None

    def _measuring(
        self, case: Case, plan: Plan, key: EnvironmentKey | None, injection: Injection | None
    ) -> _Turns:
        """Yields after each turn whether there are enough; is sent whether to take another one."""
        if injection is not None and injection.extra is Extra.MEMORY:
            plan = replace(plan, memory_limit_bytes=injection.limit_bytes)
        refused = self._refused(case, plan)
        if refused is not None:
            return refused
        if key is not None:
            self.backend.world().check(case, key)
        phases = Phases(self.backend.now_s)
        predicted = self._predicted_peak_bytes(case)
        with phases.of("bringing_memory_in"):
            self._bring_in(case)
        counted = predicted is not None and memory.reset_peak()
        with phases.of("compiling"), contextlib.ExitStack() as prepared:
            program = prepared.enter_context(self.backend.prepared(case, injection))
            sampler = self._sampler(case, plan, program, phases, injection)
            sampler.begin(single=case.clock is Clock.DISPATCH)
            while True:
                with phases.of("waiting"):
                    wanted = yield sampler.enough
                if not wanted:
                    break
                sampler.turn()
            timed = self._timed(case, sampler)
            run = self._run(case, program, sampler, timed)
            run = replace(
                run,
                peak_memory_bytes=memory.peak_bytes() if counted else program.device_peak_bytes(),
                predicted_memory_bytes=predicted,
                injected=injection.text if injection else "",
            )
            if self._is_large(case):
                self._held = prepared.pop_all()
        return replace(run, phases_s=phases.spent_s)

    def _sampler(
        self,
        case: Case,
        plan: Plan,
        program: AbstractProgram,
        phases: Phases,
        injection: Injection | None,
    ) -> Sampler:
        return Sampler(
            program,
            plan,
            self.backend.now_s,
            phases,
            sleep=self.backend.sleep,
            asleep=injection if injection and injection.extra is Extra.SLEEP else None,
            payload_bytes=case.payload_bytes,
        )

    def _run(self, case: Case, program: AbstractProgram, sampler: Sampler, timed: _Timed) -> Run:
        return Run(
            launch=self.launch,
            iterations=timed.iterations,
            samples_s=timed.samples_s,
            compile_s=program.compile_s,
            values_checked=sampler.values_checked,
            proof=program.proof,
            clock=case.clock.value,
            framework_path=self.backend.framework_path,
            versions=self.backend.versions,
            anchors_s=tuple(sampler.anchors_s),
            clocks_s=timed.clocks_s,
            dispatch_s=timed.dispatch_s,
            first_call_s=sampler.first_call_s,
            rank_times_s=timed.rank_times_s,
            over_ranks_s=timed.over_ranks_s,
            hidden_share=timed.hidden_share,
            compiled_memory_bytes=program.compiled_memory_bytes,
        )

    def _is_large(self, case: Case) -> bool:
        need = self.backend.memory_need(case)
        return need is not None and need.needed_bytes >= LARGE_BYTES

    def _timed(self, case: Case, sampler: Sampler) -> _Timed:
        slopes = sampler.sampled()
        if case.clock is Clock.DISPATCH:
            clocks = {Clock.DISPATCH.value: launch_time_s(slopes.samples_s)}
            return _Timed(1, slopes.samples_s, clocks, None)
        if case.clock is Clock.DEVICE:
            return self._by_device(case, sampler, slopes)
        clocks = {Clock.HOST.value: launch_time_s(slopes.samples_s)}
        timed = _Timed(slopes.iterations, slopes.samples_s, clocks, slopes.dispatch_s)
        return (
            self._with_collective(case, sampler, slopes, timed)
            if not case.workload.is_bare
            else timed
        )

    def _with_collective(
        self, case: Case, sampler: Sampler, slopes: Sampled, timed: _Timed
    ) -> _Timed:
        """`timed` with what the profiler says of the collective inside of a step.

        Without, where the profiler does not say it: the step's own time is the host's.
        """
        try:
            said = recording.record(self.backend, case, sampler, slopes, LEAST_SAMPLES).said
        except MeasuringError as error:
            if error.kind is not FailureKind.UNAVAILABLE:
                raise
            return timed
        return replace(
            timed,
            rank_times_s=said.rank_times_s,
            over_ranks_s=said.over_ranks_s,
            hidden_share=said.hidden_share,
        )

    def _by_device(self, case: Case, sampler: Sampler, slopes: Sampled) -> _Timed:
        """By the device's clock; the host's reads the very same calls: they can be compared."""
        calls = max(LEAST_SAMPLES, len(slopes.samples_s))
        found = recording.record(self.backend, case, sampler, slopes, calls)
        iterations, recorded, short_s = found.iterations, found.said, slopes.short_s or 0.0
        host_s = [sampler.slope(one, iterations, short_s) for one in found.elapsed_s]
        clocks = {
            Clock.DEVICE.value: launch_time_s(recorded.samples_s),
            Clock.HOST.value: launch_time_s(host_s),
        }
        return _Timed(
            iterations=iterations,
            samples_s=recorded.samples_s,
            clocks_s=clocks,
            dispatch_s=slopes.dispatch_s,
            rank_times_s=recorded.rank_times_s,
            over_ranks_s=recorded.over_ranks_s,
        )

    def _refused(self, case: Case, plan: Plan) -> Failure | None:
        """A Failure where the case would not fit, before any memory is touched."""
        need = self.backend.memory_need(case)
        room = memory.headroom(plan.memory_limit_bytes)
        if need is None or room is None:
            return None
        kept = self._kept_bytes() if need.reuses_kept else 0
        if need.needed_bytes <= room.available_bytes + kept:
            return None
        return Failure(
            kind=FailureKind.OUT_OF_MEMORY,
            message=f"{need.needed_bytes} bytes needed, {room.available_bytes + kept} available",
            launch=self.launch,
            found=FoundBy.PREDICTED,
            needed_bytes=need.needed_bytes,
            available_bytes=room.available_bytes + kept,
            capacity_bytes=room.capacity_bytes + kept,
        )

    def _kept_bytes(self) -> int:
        """What the framework's allocator kept of earlier cases and will use again."""
        now = memory.resident_bytes()
        if now is None or self.opened_bytes is None:
            return 0
        return max(0, now - self.opened_bytes)

    def _bring_in(self, case: Case) -> None:
        """Have the machine's memory there before a large case, known to fit, asks for it."""
        need = self.backend.memory_need(case)
        if need is None or not need.really_taken or memory.headroom(None) is None:
            return
        wanted = need.needed_bytes - (self._kept_bytes() if need.reuses_kept else 0)
        if wanted >= LARGE_BYTES:
            memory.prefault(wanted, host.cores())

    def _predicted_peak_bytes(self, case: Case) -> int | None:
        need = self.backend.memory_need(case)
        now = memory.resident_bytes()
        if need is None or now is None:
            return None
        kept = self._kept_bytes() if need.reuses_kept else 0
        return now + max(0, need.needed_bytes - kept)


def _failure(ended: Run | Failure | None) -> Failure | None:
    """What a case that is not to end yet can end with."""
    assert not isinstance(ended, Run)
    return ended

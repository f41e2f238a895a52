"""One case in one launch: prepare and prove, check, warm up, calibrate, sample.

Knows the order and nothing of any framework: that is behind `backends.base`. Every sample's
result is compared with the exact sum, outside the timed region; no sample is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from busbw.model import Case, Failure, FailureKind, Found, Plan, Run
from busbw.worker import host, memory
from busbw.worker.backends.base import AbstractBackend, AbstractProgram, MeasuringError

LEAST_SAMPLES = 2
SETTLED = 0.7
LARGE_BYTES = 2**30


@dataclass(frozen=True)
class _Sampled:
    iterations: int
    samples_s: tuple[float, ...]
    values_checked: int


@dataclass
class Desk:
    """Measures case after case with one back end, and keeps what must not be asked twice."""

    backend: AbstractBackend
    launch: str
    opened_bytes: int | None = field(default_factory=memory.resident_bytes)

    def measure(self, case: Case, plan: Plan) -> Run | Failure:
        """The Run of `case`, or the Failure that stands for it."""
        try:
            return self._measure(case, plan)
        except MeasuringError as error:
            return Failure(
                kind=error.kind,
                message=str(error),
                launch=self.launch,
                found=Found.RAISED if error.kind is FailureKind.OUT_OF_MEMORY else None,
                needed_bytes=error.needed_bytes,
                available_bytes=error.available_bytes,
            )

    def _measure(self, case: Case, plan: Plan) -> Run | Failure:
        refused = self._refused(case, plan)
        if refused is not None:
            return refused
        predicted = self._predicted_peak_bytes(case)
        self._bring_in(case)
        counted = predicted is not None and memory.reset_peak()
        with self.backend.prepared(case) as program:
            sampled = _sample(program, plan, self.backend)
            return Run(
                launch=self.launch,
                iterations=sampled.iterations,
                samples_s=sampled.samples_s,
                compile_s=program.compile_s,
                values_checked=sampled.values_checked,
                proof=program.proof,
                clock="host",
                framework_path=self.backend.framework_path,
                versions=self.backend.versions,
                peak_memory_bytes=memory.peak_bytes() if counted else program.device_peak_bytes(),
                predicted_memory_bytes=predicted,
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
            found=Found.PREDICTED,
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
            memory.bring_in(wanted, host.cores())

    def _predicted_peak_bytes(self, case: Case) -> int | None:
        need = self.backend.memory_need(case)
        now = memory.resident_bytes()
        if need is None or now is None:
            return None
        kept = self._kept_bytes() if need.reuses_kept else 0
        return now + max(0, need.needed_bytes - kept)


def _sample(program: AbstractProgram, plan: Plan, backend: AbstractBackend) -> _Sampled:
    warm_s, checked = _warm_up(program, plan, backend)
    iterations, more = _calibrate(program, warm_s, plan, backend)
    checked += more
    samples: list[float] = []
    begun_s = backend.now_s()
    while len(samples) < plan.samples:
        elapsed_s, more = _time(program, iterations, backend)
        samples.append(elapsed_s / iterations)
        checked += more
        if len(samples) >= LEAST_SAMPLES and backend.now_s() - begun_s > plan.budget_s:
            break
    return _Sampled(iterations=iterations, samples_s=tuple(samples), values_checked=checked)


def _warm_up(program: AbstractProgram, plan: Plan, backend: AbstractBackend) -> tuple[float, int]:
    """Shortest chains until one is no longer much faster than the last, or the budget is spent.

    Seconds of the last one, and how many values were checked.
    """
    begun_s = backend.now_s()
    last_s, checked = _time(program, program.step, backend)
    while backend.now_s() - begun_s < plan.budget_s:
        elapsed_s, more = _time(program, program.step, backend)
        checked += more
        settled = elapsed_s > SETTLED * last_s
        last_s = elapsed_s
        if settled:
            break
    return last_s, checked


def _calibrate(
    program: AbstractProgram, elapsed_s: float, plan: Plan, backend: AbstractBackend
) -> tuple[int, int]:
    """Iterations for a sample of `min_sample_s`, as far as values stay exact; values checked.

    `elapsed_s` is what the shortest chain takes.
    """
    iterations, checked = program.step, 0
    while elapsed_s < plan.min_sample_s and iterations < program.most_iterations:
        wanted = iterations * min(8.0, 1.2 * plan.min_sample_s / max(elapsed_s, 1e-9))
        steps = max(int(wanted) // program.step, iterations // program.step + 1)
        iterations = min(steps * program.step, program.most_iterations)
        elapsed_s, more = _time(program, iterations, backend)
        checked += more
    return iterations, checked


def _time(program: AbstractProgram, iterations: int, backend: AbstractBackend) -> tuple[float, int]:
    """Seconds that `iterations` all-reduces of fresh values took; how many values were right."""
    program.fresh()
    begun_s = backend.now_s()
    program.run(iterations)
    elapsed_s = backend.now_s() - begun_s
    return elapsed_s, program.check(iterations)

"""How a time is found from calls of a program: warm up, calibrate, sample.

With the clock `host` a sample is the slope between a short chain and a long one: what a call
costs by itself is in both and falls out, and so does what a program does once in a call. With
the clock `dispatch` it is one call of one collective. Every chain starts from fresh values, laid
out before the clock starts, and every result is compared with the exact one after it has
stopped. No sample is dropped.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from busbw.model import FailureKind, Plan
from busbw.worker.backends.base import AbstractProgram, MeasuringError
from busbw.worker.phases import Phases

LEAST_SAMPLES = 2
# A chain that takes more than this share of the last one's time is warm.
SETTLED = 0.7

# What takes so many times as long as all sampling may is sampled, or warmed up, but once.
LONG_BUDGETS = 7.0
LONG_WARM_UP_BUDGETS = 4.0


@dataclass(frozen=True)
class Sampled:
    """Seconds of one collective in each sample, of a call beyond its collectives, of a short chain.

    The last two are None where no slope was taken.
    """

    iterations: int
    samples_s: tuple[float, ...]
    dispatch_s: float | None = None
    short_s: float | None = None


@dataclass
class Sampler:
    """Takes the samples of one program."""

    program: AbstractProgram
    plan: Plan
    now_s: Callable[[], float]
    phases: Phases
    values_checked: int = 0
    first_call_s: float | None = None
    _warm_s: float = 0.0

    def slopes(self) -> Sampled:
        """Samples by the clock `host`."""
        with self.phases.of("warming_up"):
            self._warm_s = self._warm_up()
            iterations = self._calibrated(self._warm_s)
        pairs: list[tuple[float, float]] = []
        begun_s = self.now_s()
        with self.phases.of("sampling"):
            while not self._enough(len(pairs), begun_s):
                pairs.append(self.pair(iterations))
        return self._sampled(iterations, pairs)

    def _sampled(self, iterations: int, pairs: Sequence[tuple[float, float]]) -> Sampled:
        """Every long chain's slope from the launch's short one, or its own if that was shorter."""
        shortest = self.program.shortest
        short_s = launch_time_s([short for short, _ in pairs])
        if shortest == self.program.step:
            # The warm-up's chain was the same one: a stall of the only short chain must not pass.
            short_s = min(short_s, self._warm_s)
        samples_s = tuple(
            self.slope(long, iterations, min(short, short_s)) for short, long in pairs
        )
        if min(samples_s) <= 0:
            longest_s, least_s = max(short for short, _ in pairs), min(long for _, long in pairs)
            raise MeasuringError(
                FailureKind.UNAVAILABLE,
                f"a chain of {iterations} took {least_s:.3g} s, one of {shortest} up to "
                f"{longest_s:.3g} s: the host's clock cannot tell them apart",
            )
        dispatch_s = short_s - shortest * launch_time_s(samples_s)
        return Sampled(iterations, samples_s, dispatch_s if dispatch_s > 0 else None, short_s)

    def slope(self, long_s: float, iterations: int, short_s: float) -> float:
        """Seconds of one collective, from a chain of `iterations` and the shortest one."""
        return (long_s - short_s) / (iterations - self.program.shortest)

    def single_calls(self) -> Sampled:
        """Samples by the clock `dispatch`."""
        with self.phases.of("warming_up"):
            self._warm_up()
        samples_s: list[float] = []
        begun_s = self.now_s()
        with self.phases.of("sampling"):
            while not self._enough(len(samples_s), begun_s):
                samples_s.append(self.timed(1))
        return Sampled(1, tuple(samples_s))

    def pair(self, iterations: int) -> tuple[float, float]:
        """Seconds of the shortest chain, then of `iterations` collectives.

        An empty chain leaves the values as they were laid out, and nothing to check.
        """
        shortest = self.program.shortest
        if shortest:
            return self.timed(shortest), self.timed(iterations)
        self._lay_out()
        short_s = self._call_s(0)
        long_s = self._call_s(iterations)
        self._check(iterations)
        return short_s, long_s

    def timed(self, iterations: int) -> float:
        """Seconds that `iterations` collectives took, in one call."""
        self._lay_out()
        elapsed_s = self._call_s(iterations)
        self._check(iterations)
        return elapsed_s

    def _lay_out(self) -> None:
        with self.phases.of("laying_out"):
            self.program.fresh()

    def _check(self, iterations: int) -> None:
        with self.phases.of("checking"):
            self.values_checked += self.program.check(iterations)

    def _call_s(self, iterations: int) -> float:
        begun_s = self.now_s()
        self.program.run(iterations)
        return self.now_s() - begun_s

    def _enough(self, count: int, begun_s: float) -> bool:
        """Two samples at least; of what takes many times as long as all sampling may, one."""
        spent_s = self.now_s() - begun_s
        least = 1 if spent_s > LONG_BUDGETS * self.plan.budget_s else LEAST_SAMPLES
        return count >= self.plan.samples or (count >= least and spent_s > self.plan.budget_s)

    def _is_over(self, begun_s: float) -> bool:
        return self.now_s() - begun_s > self.plan.budget_s

    def _warm_up(self) -> float:
        """Shortest chains until one is no longer much faster than the last, or time is up.

        Seconds of the last one. The first says little, so there are two, unless one is too many.
        """
        begun_s = self.now_s()
        last_s = self.first_call_s = self.timed(self.program.step)
        if last_s > LONG_WARM_UP_BUDGETS * self.plan.budget_s:
            return last_s
        while True:
            elapsed_s = self.timed(self.program.step)
            if elapsed_s > SETTLED * last_s or self._is_over(begun_s):
                return elapsed_s
            last_s = elapsed_s

    def _calibrated(self, step_s: float) -> int:
        """Iterations whose chain takes `min_sample_s` more than the shortest one, if exact.

        `step_s` is what the warm-up's chain took. The chain that is settled on has run once,
        unless even the warm-up's took as long as all sampling may.
        """
        program, plan = self.program, self.plan
        iterations = program.shortest + program.step
        if step_s >= plan.budget_s:
            return iterations
        short_s, long_s = self.pair(iterations)
        while long_s - short_s < plan.min_sample_s and iterations < program.most_iterations:
            wanted = 1.2 * plan.min_sample_s / max(long_s - short_s, 1e-9)
            steps = max(
                int(iterations * min(8.0, wanted)) // program.step, iterations // program.step + 1
            )
            iterations = min(steps * program.step, program.most_iterations)
            short_s, long_s = self.pair(iterations)
        return iterations


def launch_time_s(samples_s: Sequence[float]) -> float:
    """The p25 of samples, as everywhere the time of a launch; of a single one, itself."""
    if len(samples_s) == 1:
        return samples_s[0]
    return statistics.quantiles(samples_s, n=4, method="inclusive")[0]

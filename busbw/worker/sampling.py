"""Measure the time of a collective from the calls of a program: warm up, calibrate, take samples.

With the clock `host` a sample is the slope between a short and a long chain of collectives, which
does not contain the cost of a call. With the clock `dispatch` a sample is one call of one
collective. Every result is compared with the exact result after the clock has stopped. No sample is
dropped.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from busbw.model.launch import Pace, Plan
from busbw.worker.backends.base import (
    AllGather,
    Program,
    single_process_gather,
    unavailable,
)

MIN_SAMPLES = 2

# A chain is warm if it takes more than this share of the time of the chain before.
_SETTLED_SHARE = 0.7
# A first chain is warm if it takes at most 1 / this share of the time in the launch before.
_PACE_SHARE = 0.9

# A chain that takes this many times as long as the warm-up's chain predicts was disturbed.
_STALL_RATIO = 2.0

# The factor by which chains become longer, once, if the clock cannot distinguish them.
_LENGTHENING = 8

# A case is sampled, or warmed up, only once if that takes this many times the sampling budget.
_LONG_SAMPLING_BUDGETS = 7.0
_LONG_WARM_UP_BUDGETS = 4.0


@dataclass
class Phases:
    """The seconds that were spent in each phase; a nested phase does not count for the outer one.

    `now_s` is the clock.
    """

    now_s: Callable[[], float]
    spent_s: dict[str, float] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _since_s: float = 0.0

    @contextlib.contextmanager
    def enter(self, name: str) -> Iterator[None]:
        """Count the time inside the `with` block for a phase."""
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def _charge(self) -> None:
        now_s = self.now_s()
        if self._open:
            name = self._open[-1]
            self.spent_s[name] = self.spent_s.get(name, 0.0) + now_s - self._since_s
        self._since_s = now_s


@dataclass(frozen=True)
class Samples:
    """The samples of a launch, in seconds for one collective.

    `dispatch_s` is what a call costs beyond its collectives, and `short_s` the time of a short
    chain. Both are None if samples are no slopes.
    """

    iterations: int
    samples_s: tuple[float, ...]
    dispatch_s: float | None = None
    short_s: float | None = None


@dataclass
class Sampler:
    """Takes the samples of one program, one at a time, so that two programs can be interleaved.

    `all_gather` returns the values of all processes of a group, which make every call together. A
    call takes as long as in the slowest process. So all processes decide alike how long to warm up,
    how many `iterations` a long chain has, and when there are enough samples.
    """

    program: Program
    plan: Plan
    now_s: Callable[[], float]
    phases: Phases
    all_gather: AllGather = single_process_gather
    values_checked: int = 0
    extra: dict[str, object] = field(default_factory=dict)
    iterations: int = 1
    _is_single: bool = False
    _warm_s: float = 0.0
    _is_lengthened: bool = False
    _pairs: list[tuple[float, float]] = field(default_factory=list)
    _begun_s: float | None = None
    _spent_s: float = 0.0

    def begin(self, *, single: bool = False, pace: Pace | None = None) -> None:
        """Warm up, and find the length of chains.

        Args:
            single: whether a sample is a single call.
            pace: how fast the case was in the launch before. A first chain that is as fast is warm,
                and chains are at least as long as in that launch.

        """
        self._is_single = single
        with self.phases.enter("warming_up"):
            self._warm_s = self._warm_up(pace)
            if not single:
                self.iterations = self._calibrate(self._warm_s, pace.iterations if pace else 1)

    def take_sample(self) -> None:
        """Take a sample. Discard all samples, once, if their chains turn out to be too short."""
        if self._begun_s is None:
            self._begun_s = self.now_s()
        with self.phases.enter("sampling"):
            self._pairs.append(self._time_pair())
        self._spent_s = self.slowest_s(self.now_s() - self._begun_s)
        if self.is_done and not (self._is_single or self._is_lengthened or self._is_measurable):
            # The machine stalled while the length of chains was chosen: none of these chains is
            # long enough for the clock, so none of them measures a collective.
            self._is_lengthened = True
            longest = self._whole_steps(self.program.most_iterations)
            self.iterations = max(self.iterations, min(_LENGTHENING * self.iterations, longest))
            self._pairs.clear()
            self._begun_s = None

    def sample_with_injection(self, *, injecting: bool) -> tuple[float, float]:
        """Time a short and a long chain, with the injected work or without it. Keep no sample."""
        self.program.is_injecting = injecting
        try:
            return self._time_pair()
        finally:
            self.program.is_injecting = True

    def _time_pair(self) -> tuple[float, float]:
        if self._is_single:
            return 0.0, self.time_chain(1)
        return self.time_chains(self.iterations)

    @property
    def is_done(self) -> bool:
        """Whether there are enough samples."""
        count, plan = len(self._pairs), self.plan
        is_enough = self.is_enough(count, self._spent_s, MIN_SAMPLES)
        # If the machine stalled in short chains, more of them show how long a short chain takes.
        may_go_on = count < plan.samples and self._spent_s <= _LONG_SAMPLING_BUDGETS * plan.budget_s
        return is_enough and (self._is_single or not may_go_on or self._is_measurable)

    @property
    def _is_measurable(self) -> bool:
        """Whether each long chain took longer than a short chain."""
        return min(self._slopes_s()[1]) > 0

    def is_enough(self, count: int, spent_s: float, minimum: int) -> bool:
        """Return whether `count` samples are enough after `spent_s`.

        Enough are the samples of the plan, or `minimum` after the plan's budget, or a single sample
        after many times the budget.
        """
        minimum = 1 if spent_s > _LONG_SAMPLING_BUDGETS * self.plan.budget_s else minimum
        return count >= self.plan.samples or (count >= minimum and spent_s > self.plan.budget_s)

    def finish(self) -> Samples:
        """Return the samples. Raises MeasuringError UNAVAILABLE if a slope is not positive."""
        if self._is_single:
            return Samples(1, tuple(call_s for _, call_s in self._pairs))
        pairs, iterations, shortest = self._pairs, self.iterations, self.program.shortest
        short_s, samples_s = self._slopes_s()
        if min(samples_s) <= 0:
            slowest_short_s = max(short for short, _ in pairs)
            fastest_long_s = min(long for _, long in pairs)
            raise unavailable(
                f"a chain of {iterations} took {fastest_long_s:.3g} s, one of {shortest} up to "
                f"{slowest_short_s:.3g} s: the host's clock cannot distinguish them"
            )
        dispatch_s = short_s - shortest * launch_time_s(samples_s)
        return Samples(iterations, samples_s, dispatch_s if dispatch_s > 0 else None, short_s)

    def _slopes_s(self) -> tuple[float, tuple[float, ...]]:
        """Return the time of the launch's short chain, and the slope of each long chain.

        A slope begins at the launch's short chain, or at the sample's own if that is faster.
        """
        short_s = launch_time_s([short for short, _ in self._pairs])
        if self.program.shortest == self.program.step:
            # The warm-up timed the same chain, so that a stall of a single short chain is noticed.
            short_s = min(short_s, self._warm_s)
        return short_s, tuple(
            self.slope(long_s, min(begin_s, short_s), self.iterations)
            for begin_s, long_s in self._pairs
        )

    def slope(self, long_s: float, short_s: float, iterations: int) -> float:
        """Return the seconds of one collective, given the times of a long and a short chain.

        The long chain has `iterations`.
        """
        return (long_s - short_s) / (iterations - self.program.shortest)

    def time_chains(self, iterations: int) -> tuple[float, float]:
        """Time the shortest chain, then a chain of `iterations`."""
        shortest = self.program.shortest
        if shortest:
            return self.time_chain(shortest), self.time_chain(iterations)
        self._initialize()
        # An empty call leaves the starting values unchanged, so that there is no result to check.
        short_s = self._call_s(0)
        long_s = self._call_s(iterations)
        self._check(iterations)
        return short_s, long_s

    def time_chain(self, iterations: int) -> float:
        """Time a chain from fresh values, and check its result."""
        self._initialize()
        elapsed_s = self._call_s(iterations)
        self._check(iterations)
        return elapsed_s

    def _initialize(self) -> None:
        with self.phases.enter("laying_out"):
            self.program.initialize()

    def _check(self, iterations: int) -> None:
        with self.phases.enter("checking"):
            self.values_checked += self.program.check(iterations)

    def slowest_s(self, seconds: float) -> float:
        """Return the longest of the times of all processes."""
        return max(row[0] for row in self.all_gather([seconds]))

    def _call_s(self, iterations: int) -> float:
        # All processes of the group begin the call together.
        self.all_gather([0.0])
        begun_s = self.now_s()
        self.program.run(iterations)
        return self.slowest_s(self.now_s() - begun_s)

    def _warm_up(self, pace: Pace | None) -> float:
        """Call the program until it is warm, and return the time of the last call.

        The first call tells little, so there are two calls unless the first takes very long.
        """
        begun_s, step = self.now_s(), self.program.step
        last_s = self._first_s()
        pace_s = pace.dispatch_s + step * pace.time_s if pace else 0.0
        if last_s > _LONG_WARM_UP_BUDGETS * self.plan.budget_s:
            return last_s
        while pace_s <= _PACE_SHARE * last_s:
            elapsed_s = self.time_chain(step)
            is_over = self.slowest_s(self.now_s() - begun_s) > self.plan.budget_s
            if elapsed_s > _SETTLED_SHARE * last_s or is_over:
                return elapsed_s
            last_s = elapsed_s
        return last_s

    def _first_s(self) -> float:
        """Time the first call, which extensions may make with inputs of their own.

        The values of extensions are read from the result. Without extensions the result is
        compared with the exact result.
        """
        step, elapsed_s = self.program.step, 0.0
        for name in self.program.first_calls:
            with self.phases.enter("laying_out"):
                self.program.initialize(name)
            elapsed_s = self._call_s(step)
            with self.phases.enter("checking"):
                self.extra[name] = self.program.read_first_call(name, step, self.all_gather)
        return elapsed_s or self.time_chain(step)

    def _calibrate(self, step_s: float, minimum: int) -> int:
        """Return how many iterations take `min_sample_s` longer than the shortest chain.

        There are fewer if more would not stay exact. A chain of that length has run, unless the
        warm-up's chain already takes as long as all sampling may.

        Args:
            step_s: the time of the warm-up's chain.
            minimum: how many iterations to begin with.

        """
        program, plan = self.program, self.plan
        iterations = program.shortest + program.step
        if step_s >= plan.budget_s:
            return iterations
        iterations = max(iterations, self._whole_steps(min(minimum, program.most_iterations)))
        gain_s = self._gain_s(iterations, step_s)
        while gain_s < plan.min_sample_s and iterations < program.most_iterations:
            growth = min(8.0, 1.2 * plan.min_sample_s / max(gain_s, 1e-9))
            longer = max(self._whole_steps(int(iterations * growth)), iterations + program.step)
            iterations = min(self._whole_steps(longer), program.most_iterations)
            gain_s = self._gain_s(iterations, step_s)
        return iterations

    def _whole_steps(self, iterations: int) -> int:
        return iterations // self.program.step * self.program.step

    def _gain_s(self, iterations: int, step_s: float) -> float:
        """Return by how much a chain takes longer than the shortest chain.

        If the machine stalled, time both again: a stall would make chains too short.
        """
        short_s, long_s = self.time_chains(iterations)
        steps = (iterations - self.program.shortest) / self.program.step
        if long_s - short_s <= _STALL_RATIO * steps * step_s:
            return long_s - short_s
        again_short_s, again_long_s = self.time_chains(iterations)
        return min(long_s - short_s, again_long_s - again_short_s)


def launch_time_s(samples_s: Sequence[float]) -> float:
    """Return the time of a launch, the p25 of its samples; a single sample is its own p25."""
    if len(samples_s) == 1:
        return samples_s[0]
    return statistics.quantiles(samples_s, n=4, method="inclusive")[0]

"""Timing a program from its calls: warm up, calibrate, sample; no sample is dropped.

With the clock `host` a sample is the slope between a short chain and a long one, in which the cost
of a call cancels; with `dispatch` it is one call of one collective. Every result is compared with
the exact one after the clock has stopped.
"""

from __future__ import annotations

import contextlib
import statistics
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_

from busbw.model.launch import Pace, Plan
from busbw.worker.backends.base import AbstractProgram, unavailable

# Values of one process to those of all.
Gathered = Callable[[Sequence[float]], Sequence[Sequence[float]]]


def alone(values: Sequence[float]) -> Sequence[Sequence[float]]:
    return (values,)


LEAST_SAMPLES = 2
# A chain that takes more than this share of the last one's time is warm.
SETTLED = 0.7
# So is one that took this share of it in the launch before.
AS_BEFORE = 0.9

# A chain that takes this many times as long as the warm-up's, for its length, met a stall.
STALLED = 2.0

# How much longer chains become that the clock cannot distinguish, once.
LENGTHENED = 8

# What takes this many times as long as all sampling may is sampled, or warmed up, but once.
LONG_BUDGETS = 7.0
LONG_WARM_UP_BUDGETS = 4.0


@dataclass
class Phases:
    """Seconds by phase, each in one: an inner one is not part of the outer. `now_s`: the clock."""

    now_s: Callable[[], float]
    spent_s: dict[str, float] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _since_s: float = 0.0

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
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
    """Takes the samples of one program, one a turn, so that others can be measured in turn with it.

    `gathered` gives values of all processes of a group, which run every call together: a call takes
    as long as in the slowest of them, so that all decide alike how long to warm up, how long chains
    are, and when there are enough samples.
    """

    program: AbstractProgram
    plan: Plan
    now_s: Callable[[], float]
    phases: Phases
    gathered: Gathered = alone
    values_checked: int = 0
    signature: tuple[int, int] | None = None
    _single: bool = False
    _warm_s: float = 0.0
    _iterations: int = 1
    _is_lengthened: bool = False
    _pairs: list[tuple[float, float]] = field(default_factory=list)
    _begun_s: float | None = None
    _spent_s: float = 0.0

    def begin(self, *, single: bool = False, pace: Pace | None = None) -> None:
        """Warm up and find out how long chains must be; `single`: a sample is one call.

        With the `pace` of the launch before a first chain as fast as then is warm, and chains are
        as long, or longer.
        """
        self._single = single
        with self.phases.of("warming_up"):
            self._warm_s = self._warm_up(pace)
            if not single:
                self._iterations = self._calibrated(self._warm_s, pace.iterations if pace else 1)

    def turn(self) -> None:
        if self._begun_s is None:
            self._begun_s = self.now_s()
        with self.phases.of("sampling"):
            self._pairs.append(self._sample())
        self._spent_s = self.slowest(self.now_s() - self._begun_s)
        if self.enough and not (self._single or self._is_lengthened or self._is_measurable):
            # The machine stalled while the length of chains was found: they are too short for the
            # clock, and so none of them says what a collective takes.
            self._is_lengthened = True
            most = self.program.most_iterations // self.program.step * self.program.step
            self._iterations = max(self._iterations, min(LENGTHENED * self._iterations, most))
            self._pairs.clear()
            self._begun_s = None

    def beside(self, *, injecting: bool) -> tuple[float, float]:
        """A short and a long chain, with the injected work or without: no sample."""
        self.program.injecting = injecting
        try:
            return self._sample()
        finally:
            self.program.injecting = True

    def _sample(self) -> tuple[float, float]:
        if self._single:
            return 0.0, self.timed(1)
        return self.pair(self._iterations)

    @property
    def collectives(self) -> int:
        """How many collectives the long chain of a sample has more than the short one."""
        return self._iterations - self.program.shortest

    @property
    def enough(self) -> bool:
        count, plan = len(self._pairs), self.plan
        is_enough = self.is_enough(count, self._spent_s, LEAST_SAMPLES)
        # Where the machine stalled in the short chains, more of them show how long they take.
        may_go_on = count < plan.samples and self._spent_s <= LONG_BUDGETS * plan.budget_s
        return is_enough and (self._single or not may_go_on or self._is_measurable)

    @property
    def _is_measurable(self) -> bool:
        """Whether each long chain took longer than a short one."""
        return min(self._slopes_s()[1]) > 0

    def is_enough(self, count: int, spent_s: float, least: int) -> bool:
        """As many as the plan's samples, or `least` in its time; of what takes very long, one."""
        least = 1 if spent_s > LONG_BUDGETS * self.plan.budget_s else least
        return count >= self.plan.samples or (count >= least and spent_s > self.plan.budget_s)

    def sampled(self) -> Sampled:
        if self._single:
            return Sampled(1, tuple(one_s for _, one_s in self._pairs))
        pairs, iterations, shortest = self._pairs, self._iterations, self.program.shortest
        short_s, samples_s = self._slopes_s()
        if min(samples_s) <= 0:
            longest_s, least_s = max(short for short, _ in pairs), min(long for _, long in pairs)
            raise unavailable(
                f"a chain of {iterations} took {least_s:.3g} s, one of {shortest} up to "
                f"{longest_s:.3g} s: the host's clock cannot distinguish them"
            )
        dispatch_s = short_s - shortest * launch_time_s(samples_s)
        return Sampled(iterations, samples_s, dispatch_s if dispatch_s > 0 else None, short_s)

    def _slopes_s(self) -> tuple[float, tuple[float, ...]]:
        """Return the launch's short chain, and the slope of each long chain from it.

        A pair whose own short chain took less time begins there.
        """
        short_s = launch_time_s([short for short, _ in self._pairs])
        if self.program.shortest == self.program.step:
            # The warm-up's chain was the same one: a stall of the only short chain must not pass.
            short_s = min(short_s, self._warm_s)
        return short_s, tuple(
            self.slope(long_s, self._iterations, min(begin_s, short_s))
            for begin_s, long_s in self._pairs
        )

    def slope(self, long_s: float, iterations: int, short_s: float) -> float:
        return (long_s - short_s) / (iterations - self.program.shortest)

    def pair(self, iterations: int) -> tuple[float, float]:
        """An empty chain leaves the values as they were laid out, and nothing to check."""
        shortest = self.program.shortest
        if shortest:
            return self.timed(shortest), self.timed(iterations)
        self._lay_out()
        short_s = self._call_s(0)
        long_s = self._call_s(iterations)
        self._check(iterations)
        return short_s, long_s

    def timed(self, iterations: int) -> float:
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

    def slowest(self, seconds: float) -> float:
        return max(row[0] for row in self.gathered([seconds]))

    def _call_s(self, iterations: int) -> float:
        # All processes of the group begin the call together.
        self.gathered([0.0])
        begun_s = self.now_s()
        self.program.run(iterations)
        return self.slowest(self.now_s() - begun_s)

    def _warm_up(self, pace: Pace | None) -> float:
        """The last one's seconds. The first says little: two, unless one takes too long."""
        begun_s, step = self.now_s(), self.program.step
        last_s = self._first_s()
        before_s = pace.dispatch_s + step * pace.time_s if pace else 0.0
        if last_s > LONG_WARM_UP_BUDGETS * self.plan.budget_s:
            return last_s
        while before_s <= AS_BEFORE * last_s:
            elapsed_s = self.timed(step)
            is_over = self.slowest(self.now_s() - begun_s) > self.plan.budget_s
            if elapsed_s > SETTLED * last_s or is_over:
                return elapsed_s
            last_s = elapsed_s
        return last_s

    def _first_s(self) -> float:
        """The first call, of whose sum the signature is; of others the result is compared."""
        step = self.program.step
        with self.phases.of("laying_out"):
            is_signed = self.program.lay_out_inexact()
        if not is_signed:
            return self.timed(step)
        elapsed_s = self._call_s(step)
        with self.phases.of("checking"):
            found, mask = zip(*self.gathered(list(map(float, self.program.signature(step)))))
            words = [int(one) for one in found]
            whole = words[0] if len(words) == 1 else zlib.crc32(repr(words).encode())
            self.signature = whole, reduce(and_, map(int, mask))
        return elapsed_s

    def _calibrated(self, step_s: float, begin: int) -> int:
        """Iterations whose chain takes `min_sample_s` more than the shortest one, if exact.

        `begin` at least. `step_s` is what the warm-up's chain took. The chain that is settled on
        has run once, unless even the warm-up's took as long as all sampling may.
        """
        program, plan = self.program, self.plan
        iterations = program.shortest + program.step
        if step_s >= plan.budget_s:
            return iterations
        longest = min(begin, program.most_iterations) // program.step * program.step
        iterations = max(iterations, longest)
        gained_s = self._gained_s(iterations, step_s)
        while gained_s < plan.min_sample_s and iterations < program.most_iterations:
            wanted = 1.2 * plan.min_sample_s / max(gained_s, 1e-9)
            steps = max(
                int(iterations * min(8.0, wanted)) // program.step, iterations // program.step + 1
            )
            iterations = min(steps * program.step, program.most_iterations)
            gained_s = self._gained_s(iterations, step_s)
        return iterations

    def _gained_s(self, iterations: int, step_s: float) -> float:
        """Once more if the machine stalled: else the chain would be too short to be told."""
        short_s, long_s = self.pair(iterations)
        steps = (iterations - self.program.shortest) / self.program.step
        if long_s - short_s <= STALLED * steps * step_s:
            return long_s - short_s
        again_short_s, again_long_s = self.pair(iterations)
        return min(long_s - short_s, again_long_s - again_short_s)


def launch_time_s(samples_s: Sequence[float]) -> float:
    """The p25 of samples, as everywhere the time of a launch; of a single one, itself."""
    if len(samples_s) == 1:
        return samples_s[0]
    return statistics.quantiles(samples_s, n=4, method="inclusive")[0]

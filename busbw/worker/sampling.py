"""Measures the time of a collective by calling its program: warms up, calibrates, takes samples.

A chain is a call of the program that runs several iterations of the collective. With the clock
`host` a sample is a slope: the time of a long chain minus the time of a short chain, divided by the
number of additional iterations. So the cost of a call is in no sample. With the clock `dispatch` a
sample is the time of a call of a single iteration. All times are in seconds.

Every result is compared with the exact result after the clock has stopped, except for first calls
of extensions with inputs of their own. No sample is dropped because of its time. Sampling begins
again with longer chains only if the chains turn out to be too short for the clock.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from busbw.model.launch import MeasurementPlan, PreviousPace
from busbw.worker.backends.base import (
    AllGather,
    Program,
    single_process_gather,
    slowest_process_time_s,
    unavailable,
)

MIN_SAMPLES = 2

# The program is warm if a chain takes more than this fraction of the previous chain's time.
_WARM_RATIO = 0.7
# The program is warm after its first chain if this ratio of the chain's time is less than the time
# of such a chain in the previous launch.
_PACE_RATIO = 0.9

# A long chain was disturbed if it takes this many times as long as the warm-up's chain predicts.
_STALL_RATIO = 2.0

# The factor by which chains become longer, once, if the clock cannot distinguish them.
_LENGTHENING_FACTOR = 8

# A single sample is enough, or a single call for warming up, if it takes more than this many times
# the plan's sampling budget.
_LONG_BUDGET_FACTOR = 7.0
_LONG_WARM_UP_FACTOR = 4.0

# A call costs much less than the sampling budget. If a short chain takes longer than the budget,
# and its collectives take less than this fraction of its time, the machine stalled in the chain.
_LEAST_COLLECTIVE_FRACTION = 0.5
# The number of samples after which a stalled chain is accepted, however long samples take.
_SAMPLES_AFTER_STALL = 3


@dataclass
class PhaseTimer:
    """A timer that adds up the seconds that a case takes in each phase, such as "compiling".

    `now_s` is a clock that returns seconds. `spent_s` maps the name of each phase to its seconds.
    The time of a phase that is entered inside another phase counts only for the inner phase.
    """

    now_s: Callable[[], float]
    spent_s: dict[str, float] = field(default_factory=dict)
    _open_phases: list[str] = field(default_factory=list)
    _counted_until_s: float = 0.0

    @contextlib.contextmanager
    def enter(self, name: str) -> Iterator[None]:
        """Count the time inside the `with` block for the phase with the name `name`."""
        self._add_to_innermost()
        self._open_phases.append(name)
        try:
            yield
        finally:
            self._add_to_innermost()
            self._open_phases.pop()

    def _add_to_innermost(self) -> None:
        """Add the time since a phase last began or ended to the innermost open phase, if any."""
        now_s = self.now_s()
        if self._open_phases:
            name = self._open_phases[-1]
            self.spent_s[name] = self.spent_s.get(name, 0.0) + now_s - self._counted_until_s
        self._counted_until_s = now_s


@dataclass(frozen=True)
class Samples:
    """The samples of a case in a launch.

    `samples_s` has the samples: each is the time of a single collective in seconds. `iterations` is
    the number of collectives in a long chain, 1 if a sample is a single call. `dispatch_s` is the
    time that a call takes in addition to its collectives; None if it is not positive, or if a
    sample is a single call. `short_chain_s` is the time of a short chain, 0 if a sample is a single
    call.
    """

    iterations: int
    samples_s: tuple[float, ...]
    dispatch_s: float | None = None
    short_chain_s: float = 0.0


@dataclass
class Sampler:
    """The sampler of a program: it calls and times the program, and so takes samples one by one.

    All processes of a group make every call together, and the time of a call is its time in the
    slowest process (`all_gather` exchanges the times). So all processes decide alike how long to
    warm up, how many `iterations` a long chain has, and when to end.

    `plan` has the number of samples and the limits of time, `now_s` is a clock that returns
    seconds, and `phases` adds up the time of each phase. `values_checked` counts the elements of
    results that were compared. `extra_values` maps the names of extensions' values to the values.
    """

    program: Program
    plan: MeasurementPlan
    now_s: Callable[[], float]
    phases: PhaseTimer
    all_gather: AllGather = single_process_gather
    values_checked: int = 0
    extra_values: dict[str, object] = field(default_factory=dict)
    iterations: int = 1
    _times_single_calls: bool = False
    # The time of the last call of the warm-up.
    _warm_chain_s: float = 0.0
    _is_lengthened: bool = False
    # The times of the short and of the long chain of each sample; 0 and the time of a single call.
    _chain_times_s: list[tuple[float, float]] = field(default_factory=list)
    _begun_s: float | None = None
    _spent_s: float = 0.0

    def warm_up_and_calibrate(
        self, *, times_single_calls: bool = False, pace: PreviousPace | None = None
    ) -> None:
        """Warm the program up, and choose the number of iterations of a long chain.

        Args:
            times_single_calls: whether a sample is the time of a call of a single iteration, in
                place of the slope between a long and a short chain.
            pace: the speed of the case in the previous launch, None in the first launch. If the
                first chain is about as fast, the program is warm. The number of iterations in the
                previous launch is the first number to try.

        """
        self._times_single_calls = times_single_calls
        with self.phases.enter("warming_up"):
            self._warm_chain_s = self._warm_up_and_time_call(pace)
            if not times_single_calls:
                self.iterations = self._choose_iterations(
                    self._warm_chain_s, pace.iterations if pace else 1
                )

    def take_sample(self) -> None:
        """Take a sample: time a short and a long chain, or a single call.

        If the samples are then enough, but the clock cannot distinguish long from short chains,
        discard all samples and begin again with longer chains, at most once.
        """
        if self._begun_s is None:
            self._begun_s = self.now_s()
        with self.phases.enter("sampling"):
            if self._times_single_calls:
                times_s = 0.0, self.time_chain(1)
            else:
                times_s = self.time_short_and_long_chain(self.iterations)
            self._chain_times_s.append(times_s)
        self._spent_s = slowest_process_time_s(self.all_gather, self.now_s() - self._begun_s)
        can_lengthen = not (self._times_single_calls or self._is_lengthened)
        if (
            self.has_enough_samples
            and can_lengthen
            and min(self._short_chain_and_slopes_s()[1]) <= 0
        ):
            # The machine stalled while the number of iterations was chosen: chains are too short.
            self._is_lengthened = True
            longest = self._round_to_whole_turns(self.program.max_iterations)
            self.iterations = max(
                self.iterations, min(_LENGTHENING_FACTOR * self.iterations, longest)
            )
            self._chain_times_s.clear()
            self._begun_s = None

    @property
    def has_enough_samples(self) -> bool:
        """Whether sampling can end: `may_stop` allows it, and no slope shows a stall.

        After a stall a slope can be implausible, such as negative. Further samples can repair the
        slope, because all samples show how long a short chain takes. So sampling goes on until all
        slopes are plausible, or until all samples of the plan are taken. But after
        `_LONG_BUDGET_FACTOR` times `plan.budget_s`, `_SAMPLES_AFTER_STALL` samples are enough.
        Samples of single calls have no slopes.
        """
        count, plan = len(self._chain_times_s), self.plan
        may_stop = self.may_stop(count, self._spent_s, MIN_SAMPLES)
        # After a stall in short chains, more of these chains show how long they really take.
        is_within_long_budget = self._spent_s <= _LONG_BUDGET_FACTOR * plan.budget_s
        has_time = count < plan.samples and (is_within_long_budget or count < _SAMPLES_AFTER_STALL)
        return may_stop and (self._times_single_calls or not has_time or self._has_plausible_slopes)

    @property
    def _has_plausible_slopes(self) -> bool:
        """Whether each slope is positive, and no short chain shows that the machine stalled."""
        short_s, slopes_s = self._short_chain_and_slopes_s()
        least_s = _LEAST_COLLECTIVE_FRACTION * short_s if short_s > self.plan.budget_s else 0.0
        return (
            min(slopes_s) > 0 and min(slopes_s) * self.program.shortest_chain_iterations >= least_s
        )

    def may_stop(self, sample_count: int, spent_s: float, min_samples: int) -> bool:
        """Return whether sampling may stop after `sample_count` samples, which took `spent_s`.

        Sampling may stop after the plan's number of samples, or after the plan's budget with at
        least `min_samples` samples. After many times the budget a single sample is enough.
        """
        if spent_s > _LONG_BUDGET_FACTOR * self.plan.budget_s:
            min_samples = 1
        return sample_count >= self.plan.samples or (
            sample_count >= min_samples and spent_s > self.plan.budget_s
        )

    def finish(self) -> Samples:
        """Return all samples that were taken.

        Raises MeasuringError UNAVAILABLE if the slope of a sample is not positive, because then the
        clock cannot distinguish long from short chains.
        """
        if self._times_single_calls:
            return Samples(1, tuple(call_s for _, call_s in self._chain_times_s))
        iterations, shortest = self.iterations, self.program.shortest_chain_iterations
        short_s, samples_s = self._short_chain_and_slopes_s()
        if min(samples_s) <= 0:
            slowest_short_s = max(short for short, _ in self._chain_times_s)
            fastest_long_s = min(long for _, long in self._chain_times_s)
            raise unavailable(
                f"a chain of {iterations} took {fastest_long_s:.3g} s, one of {shortest} up to "
                f"{slowest_short_s:.3g} s: the host's clock cannot distinguish them"
            )
        dispatch_s = short_s - shortest * launch_time_s(samples_s)
        return Samples(iterations, samples_s, dispatch_s if dispatch_s > 0 else None, short_s)

    def _short_chain_and_slopes_s(self) -> tuple[float, tuple[float, ...]]:
        """Return the time of a short chain, and the slope of each sample: seconds per collective.

        The time of a short chain is the p25 over all samples, or the time of the warm-up's chain if
        that chain is as long and was faster. The slope of a sample is computed from its long chain
        and its own short chain. If its own short chain took longer than the time of a short chain,
        the machine stalled in it, and the time of a short chain is used instead.
        """
        short_s = launch_time_s([short for short, _ in self._chain_times_s])
        if self.program.shortest_chain_iterations == self.program.iterations_per_turn:
            # TensorFlow's shortest chain is as long as the warm-up's chain, which did not stall.
            short_s = min(short_s, self._warm_chain_s)
        return short_s, tuple(
            self.slope_s(long_s, min(own_short_s, short_s), self.iterations)
            for own_short_s, long_s in self._chain_times_s
        )

    def slope_s(self, long_s: float, short_s: float, long_iterations: int) -> float:
        """Return the seconds that a collective takes, from the times of a long and a short chain.

        The long chain has `long_iterations` collectives. The short chain is the shortest chain
        (`Program.shortest_chain_iterations`).
        """
        return (long_s - short_s) / (long_iterations - self.program.shortest_chain_iterations)

    def time_short_and_long_chain(self, iterations: int) -> tuple[float, float]:
        """Time the program's shortest chain and a chain of `iterations`; return both times."""
        shortest = self.program.shortest_chain_iterations
        if shortest:
            return self.time_chain(shortest), self.time_chain(iterations)
        self._write_values()
        # An empty call leaves the starting values unchanged, so that there is no result to check.
        short_s = self._time_call(0)
        long_s = self._time_call(iterations)
        self._check_result(iterations)
        return short_s, long_s

    def time_chain(self, iterations: int) -> float:
        """Run a chain of `iterations` collectives from new starting values, and return its time.

        The result is compared with the exact result after the clock has stopped.
        """
        self._write_values()
        elapsed_s = self._time_call(iterations)
        self._check_result(iterations)
        return elapsed_s

    def _write_values(self) -> None:
        """Write new starting values on every rank of this process."""
        with self.phases.enter("laying_out"):
            self.program.initialize_values()

    def _check_result(self, iterations: int) -> None:
        """Check the last call's result, after `iterations` collectives, and count its elements.

        Raises MeasuringError WRONG_RESULT if the result is not exact. The number of compared
        elements is added to `values_checked`.
        """
        with self.phases.enter("checking"):
            self.values_checked += self.program.check_result(iterations)

    def _time_call(self, iterations: int) -> float:
        """Call the program with `iterations`, and return the call's time in the slowest process."""
        # All processes of the group begin the call together.
        self.all_gather([0.0])
        begun_s = self.now_s()
        self.program.run(iterations)
        elapsed_s = self.now_s() - begun_s
        return slowest_process_time_s(self.all_gather, elapsed_s)

    def _warm_up_and_time_call(self, pace: PreviousPace | None) -> float:
        """Call the program until it is warm, and return the time of the last call.

        A call has as many iterations as a turn of the loop. The program is warm as soon as a call
        is hardly faster than the previous call, the first call is as fast as in the previous launch
        (`pace`), or warming up has taken more than the plan's budget. Without `pace` the program is
        called at least twice, unless the first call takes several times the budget.
        """
        begun_s, per_turn = self.now_s(), self.program.iterations_per_turn
        last_s = self._time_first_call()
        pace_s = pace.dispatch_s + per_turn * pace.time_s if pace else 0.0
        if last_s > _LONG_WARM_UP_FACTOR * self.plan.budget_s:
            return last_s
        while pace_s <= _PACE_RATIO * last_s:
            elapsed_s = self.time_chain(per_turn)
            spent_s = slowest_process_time_s(self.all_gather, self.now_s() - begun_s)
            if elapsed_s > _WARM_RATIO * last_s or spent_s > self.plan.budget_s:
                return elapsed_s
            last_s = elapsed_s
        return last_s

    def _time_first_call(self) -> float:
        """Call the program for the first time in the launch, and return the time of the call.

        If extensions have special inputs for a first call, make such a call for each of their extra
        values, read the value from the result, and return the time of the last of these calls.
        Otherwise compare the result of the first call with the exact result.
        """
        per_turn, elapsed_s = self.program.iterations_per_turn, 0.0
        for name in self.program.first_calls:
            with self.phases.enter("laying_out"):
                self.program.initialize_values(name)
            elapsed_s = self._time_call(per_turn)
            with self.phases.enter("checking"):
                self.extra_values[name] = self.program.read_first_call_value(
                    name, per_turn, self.all_gather
                )
        return elapsed_s or self.time_chain(per_turn)

    def _choose_iterations(self, turn_time_s: float, first_iterations: int) -> int:
        """Return the number of iterations of a long chain, so that the clock can measure a slope.

        Chains of increasing length are timed until a chain takes at least the plan's `min_sample_s`
        longer than the shortest chain, or has the program's largest number of iterations. If
        `turn_time_s` is at least the plan's budget, nothing is timed, and a long chain has only a
        turn more than the shortest chain.

        Args:
            turn_time_s: the time of the warm-up's last chain, which is a turn of the loop.
            first_iterations: the number of iterations to try first.

        """
        program, plan = self.program, self.plan
        iterations = program.shortest_chain_iterations + program.iterations_per_turn
        if turn_time_s >= plan.budget_s:
            return iterations
        iterations = max(
            iterations, self._round_to_whole_turns(min(first_iterations, program.max_iterations))
        )
        gain_s = self._time_beyond_shortest_chain(iterations, turn_time_s)
        while gain_s < plan.min_sample_s and iterations < program.max_iterations:
            growth = min(8.0, 1.2 * plan.min_sample_s / max(gain_s, 1e-9))
            longer = max(
                self._round_to_whole_turns(int(iterations * growth)),
                iterations + program.iterations_per_turn,
            )
            iterations = min(self._round_to_whole_turns(longer), program.max_iterations)
            gain_s = self._time_beyond_shortest_chain(iterations, turn_time_s)
        return iterations

    def _round_to_whole_turns(self, iterations: int) -> int:
        """Return `iterations`, rounded down to whole turns of the program's loop."""
        return iterations // self.program.iterations_per_turn * self.program.iterations_per_turn

    def _time_beyond_shortest_chain(self, iterations: int, turn_time_s: float) -> float:
        """Return the time of a chain of `iterations`, less the time of the shortest chain.

        The time of a turn of the loop, `turn_time_s`, predicts the difference. If the difference is
        much longer than predicted, the machine stalled, and both chains are timed again. Without
        that, too few iterations would be chosen.
        """
        short_s, long_s = self.time_short_and_long_chain(iterations)
        turns = (
            iterations - self.program.shortest_chain_iterations
        ) / self.program.iterations_per_turn
        if long_s - short_s <= _STALL_RATIO * turns * turn_time_s:
            return long_s - short_s
        again_short_s, again_long_s = self.time_short_and_long_chain(iterations)
        return min(long_s - short_s, again_long_s - again_short_s)


def launch_time_s(samples_s: Sequence[float]) -> float:
    """Return the time of a case in a launch: the p25 (lower quartile) of its samples."""
    # Workers run without `busbw.stats`, in which the judge has the same function.
    if len(samples_s) == 1:
        return samples_s[0]
    return statistics.quantiles(samples_s, n=4, method="inclusive")[0]

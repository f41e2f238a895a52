"""Injects a delay after each collective of a JAX program, to test that busbw notices the delay.

The delay is a busy loop, whose result is a zero that the compiler cannot predict. The zero is added
to the counter of the measured loop, so that XLA neither removes the busy loop nor moves it out of
the measured loop. The number of steps of the busy loop is an argument of the program.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from busbw.model.case import Case
from busbw.model.launch import Injection
from busbw.model.words import Clock

from ..base import AllGather, slowest_process_time_s, unavailable

if TYPE_CHECKING:
    from .program import JaxProgram

# The number of steps of the busy loop that are timed together.
_CALIBRATING_STEPS = 100_000
# The number of measurements of a time, of which the shortest is used.
_TIMING_REPETITIONS = 3
# A chain that takes less time than this is too short to find the time of a collective.
_MIN_CHAIN_S = 0.01


def run_busy_loop(start: jax.Array, steps: Any) -> Any:
    """Run `steps` steps of a busy loop, and return a 0 that the compiler cannot predict.

    The compiler must run the loop, because it does not know that the result is always 0. Each step
    computes the next state of a generator of random numbers (Marsaglia's xorshift), whose first
    state is 2 x `start` + 1. The result is 1 if the last state is 0, which never happens, and
    otherwise 0. `start` is any integer, and the result has its dtype.
    """

    def run_step(_: Any, state: jax.Array) -> jax.Array:
        for shift in (13, -17, 5):
            state = state ^ (state << shift if shift > 0 else state >> -shift)
        return state

    first = start.astype(jnp.uint32) * 2 + 1
    return (jax.lax.fori_loop(0, steps, run_step, first) == 0).astype(start.dtype)


def delay_or_none(case: Case, injection: Injection | None) -> Injection | None:
    """Return `injection` if it is a delay, otherwise None.

    `injection` is the loss that the user requested for the case; None for no loss. Raises
    MeasuringError UNAVAILABLE for a delay if the clock of the case does not time delays.
    """
    if injection is None or injection.share is None:
        return None
    if case.clock is Clock.DEVICE:
        raise unavailable(
            "a delay runs between collectives, which the device's clock does not time; measure it, "
            "and what it is compared with, by --clock=host"
        )
    return injection


def calibrate_delay(
    program: JaxProgram,
    injection: Injection,
    all_gather: AllGather,
    *,
    ranks_per_core: float,
) -> None:
    """Set the number of steps of a program's busy loop, to take about as long as a requested delay.

    The function measures the time of a collective and of a step, and sets `program.delay_steps`.
    How long the delay really takes is measured later.

    Args:
        program: the program, which is timed without the delay.
        injection: the requested delay, as a share of the time of a collective.
        all_gather: exchanges times with the other processes of the group, so that all processes set
            the same number of steps.
        ranks_per_core: the number of ranks that share a core of the CPU. The busy loops of these
            ranks run one after the other. 1 on accelerators.

    Raises:
        MeasuringError: UNAVAILABLE if a chain takes no longer than an empty call, so that the time
            of a collective is unknown.

    """

    def fastest_chain_s(iterations: int) -> float:
        """Time a few chains of `iterations`, and return the time of the fastest chain."""
        return min(_time_call(program, iterations, all_gather) for _ in range(_TIMING_REPETITIONS))

    iterations = program.iterations_per_turn
    while 2 * iterations <= program.max_iterations and fastest_chain_s(iterations) < _MIN_CHAIN_S:
        iterations *= 2
    without_s = (fastest_chain_s(iterations) - fastest_chain_s(0)) / iterations
    if without_s <= 0:
        raise unavailable(
            f"a delay's length cannot be found here: a chain of {iterations} takes no longer than "
            "an empty call; repeat it on an idle machine, or with a larger payload"
        )
    step_s = slowest_process_time_s(all_gather, _time_busy_step()) * max(1.0, ranks_per_core)
    program.delay_steps = max(1, round(injection.delay_s(without_s) / step_s))


def _time_call(program: JaxProgram, iterations: int, all_gather: AllGather) -> float:
    """Time a call of a program, and return its seconds in the slowest process of the group.

    The call runs a chain of `iterations` collectives, and begins in all processes together.
    `all_gather` exchanges the times of the processes.
    """
    program.initialize_values()
    # All processes of the group begin the call together.
    all_gather([0.0])
    begun_s = time.perf_counter()
    program.run(iterations)
    return slowest_process_time_s(all_gather, time.perf_counter() - begun_s)


def _time_busy_step() -> float:
    """Measure the time of a step of the busy loop on a device, and return the seconds."""
    compiled = jax.jit(run_busy_loop)
    start, steps = jnp.int32(0), jnp.int32(_CALIBRATING_STEPS)
    jax.block_until_ready(compiled(start, steps))
    tries_s = []
    for _ in range(_TIMING_REPETITIONS):
        begun_s = time.perf_counter()
        jax.block_until_ready(compiled(start, steps))
        tries_s.append(time.perf_counter() - begun_s)
    return min(tries_s) / _CALIBRATING_STEPS

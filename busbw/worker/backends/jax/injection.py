"""A delay after each collective of a JAX program, to test the gate.

A busy loop gives a zero that the compiler cannot predict. The zero is added to the loop's counter,
so that the busy loop is neither dropped nor moved out of the loop. Its number of steps is an
argument of the measured program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from busbw.model.case import Case
from busbw.model.launch import Injection
from busbw.model.words import Clock, Extra

from ..base import unavailable

if TYPE_CHECKING:
    from .program import JaxProgram

_CALIBRATING_STEPS = 100_000
_TRIES = 3
_CALIBRATING_S = 0.01


def busy(start: jax.Array, steps: Any) -> Any:
    """Return 0 after `steps` steps of Marsaglia's xorshift from an odd number, which gives no 0."""

    def step(_: Any, state: jax.Array) -> jax.Array:
        for shift in (13, -17, 5):
            state = state ^ (state << shift if shift > 0 else state >> -shift)
        return state

    first = start.astype(jnp.uint32) * 2 + 1
    return (jax.lax.fori_loop(0, steps, step, first) == 0).astype(start.dtype)


def delay_of(case: Case, injection: Injection | None) -> Injection | None:
    """Return `injection` if it is a delay. Raises MeasuringError if the case cannot be delayed."""
    if injection is None or injection.extra is not Extra.DELAY:
        return None
    if case.clock is Clock.DISPATCH:
        # The program of a single call has no loop.
        raise unavailable("a delay is for chains, not single calls")
    if case.clock is Clock.DEVICE:
        raise unavailable(
            "a delay runs between collectives, which the device's clock does not time; measure it, "
            "and what it is compared with, by --clock=host"
        )
    return injection


def calibrate(
    program: JaxProgram,
    injection: Injection,
    slowest_s: Callable[[float], float],
    *,
    ranks_per_core: float,
) -> None:
    """Set the steps of `program` so that they take about the requested time.

    All processes of a group set the same number, because `slowest_s` returns the longest of their
    times. Ranks that share a core run their busy loops one after the other. `delayed_ratio`
    measures the delay later.
    """

    def chain_s(iterations: int) -> float:
        """Return the time of the fastest of some chains, which other processes disturbed least."""
        return min(_call_s(program, iterations, slowest_s) for _ in range(_TRIES))

    chain = program.step
    while 2 * chain <= program.most_iterations and chain_s(chain) < _CALIBRATING_S:
        chain *= 2
    without_s = (chain_s(chain) - chain_s(0)) / chain
    if without_s <= 0:
        raise unavailable(
            f"a delay's length cannot be found here: a chain of {chain} takes no longer than an "
            "empty call; repeat it on an idle machine, or with a larger payload"
        )
    step_s = slowest_s(_step_s()) * max(1.0, ranks_per_core)
    program.delay_steps = max(1, round(injection.delay_s(without_s) / step_s))


def _call_s(program: JaxProgram, iterations: int, slowest_s: Callable[[float], float]) -> float:
    program.initialize()
    slowest_s(0.0)
    begun_s = time.perf_counter()
    program.run(iterations)
    return slowest_s(time.perf_counter() - begun_s)


def _step_s() -> float:
    compiled = jax.jit(busy)
    start, steps = jnp.int32(0), jnp.int32(_CALIBRATING_STEPS)
    jax.block_until_ready(compiled(start, steps))
    tries_s = []
    for _ in range(_TRIES):
        begun_s = time.perf_counter()
        jax.block_until_ready(compiled(start, steps))
        tries_s.append(time.perf_counter() - begun_s)
    return min(tries_s) / _CALIBRATING_STEPS

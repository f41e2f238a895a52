"""A delay injected into a JAX program after each of its collectives, to test the gate; else never.

A busy loop gives a zero that the compiler cannot predict, added to the loop's counter, so that it
is neither dropped nor moved out of the loop. Its steps are an argument of the measured program.
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

_TRIED_STEPS = 100_000
_TRIES = 3
_CALIBRATING_S = 0.01


def busy(start: jax.Array, steps: Any) -> Any:
    """0, after `steps` steps of Marsaglia's xorshift from an odd number, which never gives 0."""

    def step(_: Any, held: jax.Array) -> jax.Array:
        for shift in (13, -17, 5):
            held = held ^ (held << shift if shift > 0 else held >> -shift)
        return held

    first = start.astype(jnp.uint32) * 2 + 1
    return (jax.lax.fori_loop(0, steps, step, first) == 0).astype(start.dtype)


def delay_of(case: Case, injection: Injection | None) -> Injection | None:
    """`injection`, if it delays the program of `case`."""
    if injection is None or injection.extra is not Extra.DELAY:
        return None
    if case.clock is Clock.DISPATCH:
        # Its program is the collective alone, without a loop to which work could be added.
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
    slowest: Callable[[float], float],
    *,
    ranks_per_core: float,
) -> None:
    """Have `program` take about as many steps as take the requested time.

    All processes of a group get the same number: a time is that of the `slowest` of them. Ranks
    that share a core run their busy loops one after the other. Whether the delay is really there
    is measured later, beside the samples.
    """

    def seconds(iterations: int) -> float:
        """Return the time of the fastest of some chains, which other processes disturbed least."""
        return min(_chain_s(program, iterations, slowest) for _ in range(_TRIES))

    chain = program.step
    while 2 * chain <= program.most_iterations and seconds(chain) < _CALIBRATING_S:
        chain *= 2
    without_s = (seconds(chain) - seconds(0)) / chain
    if without_s <= 0:
        raise unavailable(
            f"a delay's length cannot be found here: a chain of {chain} takes no longer than an "
            "empty call; repeat it on an idle machine, or with a larger payload"
        )
    step_s = slowest(_step_s()) * max(1.0, ranks_per_core)
    program.delay_steps = max(1, round(injection.delay_s(without_s) / step_s))


def _chain_s(program: JaxProgram, iterations: int, slowest: Callable[[float], float]) -> float:
    program.fresh()
    slowest(0.0)
    begun_s = time.perf_counter()
    program.run(iterations)
    return slowest(time.perf_counter() - begun_s)


def _step_s() -> float:
    alone = jax.jit(busy)
    start, steps = jnp.int32(0), jnp.int32(_TRIED_STEPS)
    jax.block_until_ready(alone(start, steps))
    tries_s = []
    for _ in range(_TRIES):
        begun_s = time.perf_counter()
        jax.block_until_ready(alone(start, steps))
        tries_s.append(time.perf_counter() - begun_s)
    return min(tries_s) / _TRIED_STEPS

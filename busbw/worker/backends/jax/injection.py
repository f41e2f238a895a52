"""A delay injected into a JAX program after each of its collectives, to test the gate; else never.

A busy loop gives a zero that the compiler cannot predict, added to the loop's counter, so that it
is neither dropped nor moved out of the loop. Its steps are an argument of the measured program: the
memory that programs of their own left behind alone moved 16M by a tenth.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
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
_STEP_TRIES = 5
_CALIBRATING_S = 0.01
_CALIBRATING_TURNS = 15
_LEAST_TURNS = 3
_MOST_CALIBRATING_S = 3.0
_TRIED = 0.1


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
    payload_bytes: int,
    slowest: Callable[[float], float] = float,
) -> None:
    """Have `program` take as many steps as take the requested time, within the chain itself.

    All processes of a group find the same: a time is that of the `slowest` of them.

    Even the shortest loop takes some time. A delay that is nearer to zero than to that is left out:
    a delay that grows with the payload must leave small payloads unchanged.
    """
    timed = _Chains(program, slowest)
    chain = timed.length()
    one_s = min(timed.turn(chain, ())[1] for _ in range(3))
    # Not much longer than wanted: work that a rank does while it would wait costs nothing.
    tried_s = max(injection.delay_s(one_s, payload_bytes), _TRIED * one_s)
    steps = max(2, round(tried_s / slowest(_step_s())))
    turns = timed.turns(chain, (1, steps))
    empty_s, without_s = (statistics.median(times) for times in list(zip(*turns))[:2])
    shortest_s = [short - one for _, one, short, _ in turns]
    least_s = _surely_s(shortest_s)
    step_s = (statistics.median(long - one for _, one, _, long in turns) - least_s) / (steps - 1)
    wanted_s = injection.delay_s(without_s - empty_s, payload_bytes)
    if step_s <= 0:
        raise unavailable("a delay's length cannot be found here")
    if wanted_s < statistics.median(shortest_s) / 2:
        program.leave_out_injected()
        return
    program.delay_steps = max(1, 1 + round((wanted_s - least_s) / step_s))


def _surely_s(differences_s: list[float]) -> float:
    """How far beyond 0 their median surely is: what is only noise would shorten the delay."""
    middle_s = statistics.median(differences_s)
    spread_s = statistics.median(abs(one - middle_s) for one in differences_s)
    # Twice the standard error of a median, from the median deviation.
    return max(0.0, middle_s - 2 * 1.86 * spread_s / math.sqrt(len(differences_s)))


def _step_s() -> float:
    alone = jax.jit(busy)
    start, steps = jnp.int32(0), jnp.int32(_TRIED_STEPS)
    jax.block_until_ready(alone(start, steps))
    tries_s = []
    for _ in range(_STEP_TRIES):
        begun_s = time.perf_counter()
        jax.block_until_ready(alone(start, steps))
        tries_s.append(time.perf_counter() - begun_s)
    # The minimum: a preempted try would make the calibration loop too short to be measured.
    return min(tries_s) / _TRIED_STEPS


@dataclass(frozen=True)
class _Chains:
    """Times of chains of `program`, each that of the `slowest` process."""

    program: JaxProgram
    slowest: Callable[[float], float]

    def length(self) -> int:
        program, chain = self.program, self.program.step
        while chain < program.most_iterations and self.seconds(chain) < _CALIBRATING_S:
            chain = min(2 * chain, program.most_iterations)
        return max(program.step, chain // program.step * program.step)

    def turns(self, chain: int, steps: tuple[int, ...]) -> list[tuple[float, ...]]:
        begun_s, found = time.perf_counter(), [self.turn(chain, steps)]
        while len(found) < _LEAST_TURNS or (
            len(found) < _CALIBRATING_TURNS
            and self.slowest(time.perf_counter() - begun_s) < _MOST_CALIBRATING_S
        ):
            found.append(self.turn(chain, steps))
        return found

    def turn(self, chain: int, steps: tuple[int, ...]) -> tuple[float, ...]:
        """All are of `chain` collectives in a call, of which each has its share."""
        times_s = [self.seconds(iterations) / chain for iterations in (0, chain)]
        for number in steps:
            times_s.append(self.seconds(chain, number) / chain)
        return tuple(times_s)

    def seconds(self, iterations: int, steps: int | None = None) -> float:
        program = self.program
        program.injecting, program.delay_steps = steps is not None, steps
        program.fresh()
        self.slowest(0.0)
        begun_s = time.perf_counter()
        program.run(iterations)
        elapsed_s = self.slowest(time.perf_counter() - begun_s)
        program.injecting = True
        return elapsed_s

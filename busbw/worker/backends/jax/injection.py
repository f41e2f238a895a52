"""Work injected into a JAX program in addition to its collectives, to test the gate.

Never part of an ordinary measurement. The work gives a zero that the compiler cannot predict, which
is added to the loop's counter: so it can neither be dropped nor moved out of the loop. It changes
no value, and the result is checked as always.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from busbw.model import Case, Clock, Extra, Injection

from ..base import unavailable
from ..framework import AbstractChain

_TRIED_STEPS = 100_000
_STEP_TRIES = 5
_CALIBRATING_S = 0.005
_CALIBRATING_TURNS = 15
_TRIED_FACTOR = 2.0
_TRIED = 0.2


@dataclass(frozen=True)
class InjectedWork:
    """After each collective: `steps` of a busy loop on every rank, or another collective.

    That one runs on a `part` of the payload, in elements; 0 is none.
    """

    steps: int = 0
    part: int = 0


NOTHING = InjectedWork()


def work(injected: InjectedWork, axes: tuple[str, ...], count: jax.Array, result: jax.Array) -> Any:
    """Zero, after the work that follows a collective with `result`; `count` differs each time."""
    if injected.steps:
        return _busy(count, injected.steps)
    if injected.part:
        # No value is ever below 0.
        part = jax.lax.pmax(result[: injected.part], axes)
        return (part[0] < 0).astype(count.dtype)
    return 0


def injected_work(
    case: Case, injection: Injection | None, make: Callable[[InjectedWork], AbstractChain]
) -> InjectedWork:
    """The work of `injection` for `case`; a delay is calibrated with programs from `make`."""
    if injection is None or injection.extra not in (Extra.DELAY, Extra.PAYLOAD):
        return InjectedWork()
    if case.clock is Clock.DISPATCH:
        # Its program is the collective alone, without a loop to which work could be added.
        raise unavailable(f"a {injection.extra.value} is for chains, not single calls")
    if injection.extra is Extra.PAYLOAD:
        return _part(case, injection)
    return _delay(case, injection, make)


def _part(case: Case, injection: Injection) -> InjectedWork:
    """Smaller than the payload, so that the proof can tell the two collectives apart."""
    if case.collective != "all_reduce":
        raise unavailable("a second collective is for all-reduces only")
    size = jnp.dtype(case.dtype).itemsize
    part = max(1, round(case.payload_bytes * (injection.share or 0.0) / size))
    if part * size >= case.payload_bytes:
        raise unavailable(
            f"a second collective of {part * size} bytes is no part of {case.payload_bytes}"
        )
    return InjectedWork(part=part)


def _delay(
    case: Case, injection: Injection, make: Callable[[InjectedWork], AbstractChain]
) -> InjectedWork:
    """As many steps as take the requested time, within the chain itself.

    Even the shortest loop takes some time. A delay that is nearer to zero than to that is left out:
    a delay that grows with the payload must leave small payloads unchanged.
    """
    with contextlib.ExitStack() as held:

        def tried(injected: InjectedWork) -> AbstractChain:
            program = make(injected)
            held.callback(program.release)
            return program

        without = tried(NOTHING)
        one_s = _one_s(without)
        # Not much longer than wanted: work that a rank does while it would wait costs nothing.
        tried_s = max(_TRIED_FACTOR * injection.delay_s(one_s, case.payload_bytes), _TRIED * one_s)
        steps = max(2, round(tried_s / _step_s()))
        turns = _turns([without, tried(InjectedWork(steps=1)), tried(InjectedWork(steps=steps))])
    without_s = statistics.median(one for one, _, _ in turns)
    least_s = max(0.0, statistics.median(short - one for one, short, _ in turns))
    step_s = statistics.median(long - short for _, short, long in turns) / (steps - 1)
    wanted_s = injection.delay_s(without_s, case.payload_bytes)
    if step_s <= 0:
        raise unavailable("a delay's length cannot be found here")
    if wanted_s < least_s / 2:
        return NOTHING
    return InjectedWork(steps=max(1, 1 + round((wanted_s - least_s) / step_s)))


def _step_s() -> float:
    """Seconds of one step by itself, roughly."""
    busy = jax.jit(lambda start: _busy(start, _TRIED_STEPS))
    jax.block_until_ready(busy(jnp.int32(0)))
    tries_s = []
    for _ in range(_STEP_TRIES):
        begun_s = time.perf_counter()
        jax.block_until_ready(busy(jnp.int32(0)))
        tries_s.append(time.perf_counter() - begun_s)
    # The minimum: a preempted try would make the calibration loop too short to be measured.
    return min(tries_s) / _TRIED_STEPS


def _one_s(program: AbstractChain) -> float:
    """Seconds of one collective, roughly."""
    _chain_s(program, program.step)
    return min(_chain_s(program, program.step) for _ in range(3)) / program.step


def _busy(start: jax.Array, steps: int) -> Any:
    """0, after `steps` steps of Marsaglia's xorshift from an odd number, which never gives 0."""

    def step(_: Any, held: jax.Array) -> jax.Array:
        for shift in (13, -17, 5):
            held = held ^ (held << shift if shift > 0 else held >> -shift)
        return held

    begun = start.astype(jnp.uint32) * 2 + 1
    return (jax.lax.fori_loop(0, steps, step, begun) == 0).astype(start.dtype)


def _turns(programs: Sequence[AbstractChain]) -> list[tuple[float, ...]]:
    """Seconds of one collective of each program, taken in turn."""
    first = programs[0]
    chain = first.step
    while chain < first.most_iterations and _chain_s(first, chain) < _CALIBRATING_S:
        chain = min(2 * chain, first.most_iterations)
    chain = max(first.step, chain // first.step * first.step)
    return [
        tuple(_chain_s(program, chain) / chain for program in programs)
        for _ in range(_CALIBRATING_TURNS)
    ]


def _chain_s(program: AbstractChain, iterations: int) -> float:
    program.fresh()
    begun_s = time.perf_counter()
    program.run(iterations)
    return time.perf_counter() - begun_s

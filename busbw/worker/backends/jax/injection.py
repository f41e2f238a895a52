"""What a JAX program can be asked to do beside its collectives, so that the gate can be tried.

Nothing here is part of an ordinary measurement. The extra work gives a zero that the compiler
cannot foresee, which is added to the loop's counter: it can neither be dropped nor moved out of
the loop, it touches no value, and the result is checked as ever.
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
class Beside:
    """Beside each collective: `steps` turns of a busy loop on every rank; another on a `part`.

    The part is in elements; 0 is none.
    """

    steps: int = 0
    part: int = 0


NOTHING = Beside()


def work(beside: Beside, axes: tuple[str, ...], count: jax.Array, result: jax.Array) -> Any:
    """Zero, after the work beside the collective that gave `result`; `count` differs each time."""
    if beside.steps:
        return _busy(count, beside.steps)
    if beside.part:
        # No value is ever below 0.
        part = jax.lax.pmax(result[: beside.part], axes)
        return (part[0] < 0).astype(count.dtype)
    return 0


def beside_of(
    case: Case, injection: Injection | None, make: Callable[[Beside], AbstractChain]
) -> Beside:
    """What `injection` means for `case`; a delay is tried out with programs from `make`."""
    if injection is None or injection.extra not in (Extra.DELAY, Extra.PAYLOAD):
        return Beside()
    if case.clock is Clock.DISPATCH:
        # Its program is the collective alone, without the loop that counts what is beside it.
        raise unavailable(f"a {injection.extra.value} is for chains, not single calls")
    if injection.extra is Extra.PAYLOAD:
        return _part(case, injection)
    return _delay(case, injection, make)


def _part(case: Case, injection: Injection) -> Beside:
    """Smaller than the payload, so that the proof can tell the two collectives apart."""
    if case.collective != "all_reduce":
        raise unavailable("a second collective is for all-reduces only")
    size = jnp.dtype(case.dtype).itemsize
    part = max(1, round(case.payload_bytes * (injection.share or 0.0) / size))
    if part * size >= case.payload_bytes:
        raise unavailable(
            f"a second collective of {part * size} bytes is no part of {case.payload_bytes}"
        )
    return Beside(part=part)


def _delay(case: Case, injection: Injection, make: Callable[[Beside], AbstractChain]) -> Beside:
    """As many steps as take the time asked for, within the chain itself.

    A loop takes some time however short it is. Of a delay that is nearer to none than to that,
    none is made: a delay that grows with the payload is to leave small payloads as they are.
    """
    with contextlib.ExitStack() as held:

        def tried(beside: Beside) -> AbstractChain:
            program = make(beside)
            held.callback(program.release)
            return program

        without = tried(NOTHING)
        one_s = _one_s(without)
        # Not much longer than what is wanted: what a rank does while it would wait costs nothing.
        tried_s = max(_TRIED_FACTOR * injection.delay_s(one_s, case.payload_bytes), _TRIED * one_s)
        steps = max(2, round(tried_s / _step_s()))
        turns = _turns([without, tried(Beside(steps=1)), tried(Beside(steps=steps))])
    without_s = statistics.median(one for one, _, _ in turns)
    least_s = max(0.0, statistics.median(short - one for one, short, _ in turns))
    step_s = statistics.median(long - short for _, short, long in turns) / (steps - 1)
    wanted_s = injection.delay_s(without_s, case.payload_bytes)
    if step_s <= 0:
        raise unavailable("a delay's length cannot be found here")
    if wanted_s < least_s / 2:
        return NOTHING
    return Beside(steps=max(1, 1 + round((wanted_s - least_s) / step_s)))


def _step_s() -> float:
    """Seconds of one step by itself, roughly."""
    busy = jax.jit(lambda start: _busy(start, _TRIED_STEPS))
    jax.block_until_ready(busy(jnp.int32(0)))
    tries_s = []
    for _ in range(_STEP_TRIES):
        begun_s = time.perf_counter()
        jax.block_until_ready(busy(jnp.int32(0)))
        tries_s.append(time.perf_counter() - begun_s)
    # The least of them: one that was put aside would make the tried loop too short to be seen.
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

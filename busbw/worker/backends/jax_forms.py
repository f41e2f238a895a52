"""The form of the program that times a case in JAX: its loop, its buffers, its one collective.

In place, a round's result is the next round's input. On the CPU such a chain goes from one
donated buffer to a second one and back: XLA then allocates nothing and copies nothing, so that
page faults and copies are not what is timed; on an accelerator one buffer suffices. Out of
place every round reads the same input and writes the same result; a barrier, which costs
nothing, ties the input to the last round, without which XLA takes the collective out of the
loop. With the clock `dispatch` there is no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from busbw.collectives import COLLECTIVES
from busbw.model import MIB, Case, Clock, Placement

from . import jax_versions
from .jax_beside import NOTHING, Beside, work

# Few collectives in one round for payloads whose single one takes long anyway.
_LARGE_BYTES = 16 * MIB

# The width of a TPU's vector registers, in elements.
_ROW = 128

Axes = tuple[str, ...]


@dataclass(frozen=True)
class Form:
    """``function(turns, *buffers) -> (rounds counted, *buffers)`` on every rank, unmapped.

    `counts` are the buffers' elements on one rank, `outputs` how many come out, the `result`-th
    holds the result. `step` collectives make one turn of the loop, 0: there is no loop.
    """

    function: Callable[..., Any]
    counts: tuple[int, ...]
    outputs: int
    result: int
    step: int
    donated: bool = True


def form_of(
    case: Case, axes: Axes, rounds: int, *, virtual: bool, beside: Beside = NOTHING
) -> Form:
    """The Form for `case` over the mesh's `axes`, of which `rounds` chained ones stay exact."""
    size = jnp.dtype(case.dtype).itemsize
    collective = COLLECTIVES[case.collective]
    taken = collective.input_bytes(case.payload_bytes, case.group_size) // size
    given = collective.output_bytes(case.payload_bytes, case.group_size) // size
    one = partial(_collective, case, axes)
    extra = partial(work, beside, axes)
    in_place = case.placement == Placement.IN_PLACE.value
    if case.clock is Clock.DISPATCH:
        single = partial(_single, one)
        return Form(single, (taken,), outputs=1, result=0, step=0, donated=in_place)
    few = rounds < 4 or case.payload_bytes > _LARGE_BYTES
    if not in_place:
        # More of them in a turn have the same input and would be merged into one.
        return Form(partial(_repeated, one, extra), (taken, given), outputs=2, result=1, step=1)
    if virtual:
        step = 2 if few else 4
        return Form(
            partial(_to_and_fro, one, extra, step), (taken,) * 2, outputs=2, result=0, step=step
        )
    return Form(partial(_chained, one, extra), (taken,), outputs=1, result=0, step=1)


def _single(one: Callable[..., Any], turns: jax.Array, values: jax.Array) -> tuple[Any, ...]:
    return turns, one(values)


def _to_and_fro(
    one: Callable[..., Any],
    extra: Callable[..., Any],
    step: int,
    turns: jax.Array,
    first: jax.Array,
    second: jax.Array,
) -> tuple[Any, ...]:
    def turn(held: tuple[Any, ...]) -> tuple[Any, ...]:
        count, first, second = held
        beside = 0
        for place in range(step // 2):
            second = one(first)
            beside += extra(count + 2 * place, second)
            first = one(second)
            beside += extra(count + 2 * place + 1, first)
        return count + 1 + beside, first, second

    return _loop(turns, turn, first, second)


def _chained(
    one: Callable[..., Any], extra: Callable[..., Any], turns: jax.Array, values: jax.Array
) -> tuple[Any, ...]:
    def turn(held: tuple[Any, ...]) -> tuple[Any, ...]:
        count, values = held
        values = one(values)
        return count + 1 + extra(count, values), values

    return _loop(turns, turn, values)


def _repeated(
    one: Callable[..., Any],
    extra: Callable[..., Any],
    turns: jax.Array,
    values: jax.Array,
    result: jax.Array,
) -> tuple[Any, ...]:
    def turn(held: tuple[Any, ...]) -> tuple[Any, ...]:
        count, values, result = held
        values, result = jax_versions.optimization_barrier((values, one(values)))
        return count + 1 + extra(count, result), values, result

    return _loop(turns, turn, values, result)


def _loop(turns: jax.Array, turn: Callable[..., Any], *buffers: jax.Array) -> tuple[Any, ...]:
    """`turns` turns; the counter comes out, so that what was counted can be compared."""
    start = (jnp.zeros_like(turns), *buffers)
    held: tuple[Any, ...] = jax.lax.while_loop(lambda held: held[0] < turns, turn, start)
    return held


def _collective(case: Case, axes: Axes, values: jax.Array) -> jax.Array:
    """The collective itself; typed as if ranks still differed, since a loop wants what it gave."""
    given: jax.Array = _LAX[case.collective](case, axes, values)
    return jax_versions.varying(given, axes) if case.collective == "all_reduce" else given


def _all_reduce(case: Case, axes: Axes, values: jax.Array) -> Any:
    reduce = {"sum": jax.lax.psum, "max": jax.lax.pmax, "min": jax.lax.pmin}[case.reduce_op]
    return reduce(values, axes)


def _reduce_scatter(case: Case, axes: Axes, values: jax.Array) -> Any:
    """In rows, where blocks are whole rows; of a line a TPU makes an all-reduce and a slice."""
    whole = values.size % (case.group_size * _ROW) == 0
    rows = values.reshape(-1, _ROW) if whole else values
    return jax.lax.psum_scatter(rows, axes, tiled=True).reshape(-1)


def _permute(case: Case, axes: Axes, values: jax.Array) -> Any:
    pairs = [(i, (i + 1) % case.group_size) for i in range(case.group_size)]
    return jax.lax.ppermute(values, axes, pairs)


_LAX: Mapping[str, Callable[[Case, Axes, jax.Array], Any]] = {
    "all_reduce": _all_reduce,
    "all_gather": lambda case, axes, values: jax.lax.all_gather(values, axes, tiled=True),
    "reduce_scatter": _reduce_scatter,
    "all_to_all": lambda case, axes, values: jax.lax.all_to_all(values, axes, 0, 0, tiled=True),
    "permute": _permute,
}

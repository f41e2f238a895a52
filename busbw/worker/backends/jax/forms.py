"""The form of the program that times a case in JAX: its loop, its buffers, its one collective.

In place, a round's result is the next round's input. On the CPU such a chain goes from one
donated buffer to a second one and back: XLA then allocates nothing and copies nothing, so that
page faults and copies are not what is timed; on an accelerator one buffer suffices. Out of
place every round reads the same input and writes the same result; a barrier, which costs
nothing, ties the input to the last round, without which XLA takes the collective out of the
loop. With the clock `dispatch` there is no loop. What is measured and what is compiled for chips
that are not there is lowered here alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives import COLLECTIVES
from busbw.model import MIB, Case, Clock, Placement

from . import lowerings, versions
from .injection import NOTHING, Beside, work
from .program import EVERYWHERE, loop

# Few collectives in one round for payloads whose single one takes long anyway.
_LARGE_BYTES = 16 * MIB


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
    case: Case, axes: tuple[str, ...], rounds: int, *, virtual: bool, beside: Beside = NOTHING
) -> Form:
    """The Form for `case` over the mesh's `axes`, of which `rounds` chained ones stay exact."""
    size = jnp.dtype(case.dtype).itemsize
    collective = COLLECTIVES[case.collective]
    taken = collective.input_bytes(case.payload_bytes, case.group_size) // size
    given = collective.output_bytes(case.payload_bytes, case.group_size) // size
    one = partial(lowerings.lower, case, axes)
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

    return loop(turns, turn, first, second)


def _chained(
    one: Callable[..., Any], extra: Callable[..., Any], turns: jax.Array, values: jax.Array
) -> tuple[Any, ...]:
    def turn(held: tuple[Any, ...]) -> tuple[Any, ...]:
        count, values = held
        values = one(values)
        return count + 1 + extra(count, values), values

    return loop(turns, turn, values)


def _repeated(
    one: Callable[..., Any],
    extra: Callable[..., Any],
    turns: jax.Array,
    values: jax.Array,
    result: jax.Array,
) -> tuple[Any, ...]:
    def turn(held: tuple[Any, ...]) -> tuple[Any, ...]:
        count, values, result = held
        values, result = versions.optimization_barrier((values, one(values)))
        return count + 1 + extra(count, result), values, result

    return loop(turns, turn, values, result)


def shapes(case: Case, mesh: Mesh, form: Form) -> list[jax.ShapeDtypeStruct]:
    """The buffers of all ranks together, laid out over the mesh."""
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    return [
        jax.ShapeDtypeStruct((case.ranks * count,), jnp.dtype(case.dtype), sharding=sharding)
        for count in form.counts
    ]


def lowered(case: Case, mesh: Mesh, form: Form) -> Any:
    """``(turns, *buffers) -> (rounds counted, *buffers)``, not compiled yet."""
    each = PartitionSpec(mesh.axis_names)
    turns = jax.ShapeDtypeStruct((), np.int32, sharding=NamedSharding(mesh, EVERYWHERE))
    buffers = shapes(case, mesh, form)
    mapped = versions.shard_map(
        form.function,
        mesh=mesh,
        in_specs=(EVERYWHERE, *[each] * len(buffers)),
        out_specs=(EVERYWHERE, *[each] * form.outputs),
    )
    numbers = tuple(range(1, len(buffers) + 1)) if form.donated else ()
    return jax.jit(mapped, donate_argnums=numbers, keep_unused=True).lower(turns, *buffers)

"""A chain of collectives in JAX: its loop, its buffers, and how it is lowered over a mesh.

On the CPU a chain in place goes from one donated buffer to a second one and back, so that neither
page faults nor copies are timed. Out of place a barrier ties the input to the last result at no
cost. Without it XLA moves the collective out of the loop.

XLA for GPUs runs a small all-reduce by a kernel of its own, which writes to another buffer. A loop
with a single all-reduce would copy the result back. A second all-reduce brings it back instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.machine import names_of
from busbw.model.words import MIB, Clock, Device, Placement

from ..values import Values
from . import lowerings, versions
from .injection import busy

EVERYWHERE = PartitionSpec()

# From this payload on the loop's body has few collectives, because a single one takes long enough.
_LARGE_BYTES = 16 * MIB

# The largest payload that XLA for GPUs may reduce by its own kernel, from jaxlib 0.11.2 on.
_KERNEL_BYTES = 4 * MIB

_Operation = Callable[[Any], Any]


@dataclass(frozen=True)
class Form:
    """A program of one rank: ``function(loop_counts, *buffers) -> (turns counted, *buffers)``.

    `counts` are the elements of each buffer on one rank, and the `result`-th buffer that the
    function returns holds the result. The loop's body has `step` collectives, 0 without a loop.
    `is_donated`: a call takes the buffers and returns new ones. `is_delayed`: see `chain`.
    """

    function: Callable[..., Any]
    counts: tuple[int, ...]
    result: int
    step: int
    is_donated: bool = True
    is_delayed: bool = False

    def shapes(self, case: Case, mesh: Mesh) -> list[jax.ShapeDtypeStruct]:
        """Return the shapes of the buffers over all ranks."""
        sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
        return [
            jax.ShapeDtypeStruct((case.ranks * count,), jnp.dtype(case.dtype), sharding=sharding)
            for count in self.counts
        ]

    def lower(self, case: Case, mesh: Mesh) -> Any:
        """Lower the function over the mesh, without compiling it."""
        number = jax.ShapeDtypeStruct((), np.int32, sharding=NamedSharding(mesh, EVERYWHERE))
        loop_counts = (number, number) if self.is_delayed else number
        arguments = [loop_counts, *self.shapes(case, mesh)]
        out_specs = (EVERYWHERE, *[PartitionSpec(mesh.axis_names)] * len(self.counts))
        donated = range(1, len(arguments)) if self.is_donated else ()
        return lower_over(mesh, self.function, arguments, out_specs, tuple(donated))


def form_of(
    case: Case,
    axes: tuple[str, ...],
    rounds: int,
    *,
    device: Device,
    is_virtual: bool,
    is_delayed: bool = False,
) -> Form:
    """Return the Form of `case` along the mesh's `axes`; `rounds` chained ones stay exact."""
    size = jnp.dtype(case.dtype).itemsize
    collective = COLLECTIVES[case.collective]
    inputs = collective.input_bytes(case.payload_bytes, case.group_size) // size
    outputs = collective.output_bytes(case.payload_bytes, case.group_size) // size
    operation = partial(lowerings.lower, case, axes)
    in_place = case.placement == Placement.IN_PLACE.value
    if case.clock is Clock.DISPATCH:
        single = partial(_single, operation)
        return Form(single, (inputs,), result=0, step=0, is_donated=in_place)
    few = rounds < 4 or case.payload_bytes > _LARGE_BYTES
    body: Callable[..., tuple[Any, ...]]
    counts: tuple[int, ...]
    if not in_place:
        # Several collectives in a body would have the same input, and XLA would merge them.
        body, counts, result, step = _repeated, (inputs, outputs), 1, 1
    elif is_virtual:
        body, counts, result, step = _ping_pong, (inputs, inputs), 0, 2 if few else 4
    else:
        body, counts, result, step = _chained, (inputs,), 0, 1
        if device is Device.GPU and case.payload_bytes <= _KERNEL_BYTES:
            step = min(2, max(1, rounds))
    function = partial(chain, partial(body, operation), step=step, is_delayed=is_delayed)
    return Form(function, counts, result, step, is_delayed=is_delayed)


def _single(operation: _Operation, turns: jax.Array, values: jax.Array) -> tuple[Any, ...]:
    return turns, operation(values)


def _ping_pong(operation: _Operation, number: int, first: Any, second: Any) -> tuple[Any, ...]:
    return (first, operation(first)) if number % 2 == 0 else (operation(second), second)


def _chained(operation: _Operation, _: int, values: Any) -> tuple[Any, ...]:
    return (operation(values),)


def _repeated(operation: _Operation, _: int, values: Any, result: Any) -> tuple[Any, ...]:
    buffers: tuple[Any, ...] = jax.lax.optimization_barrier((values, operation(values)))
    return buffers


def chain(
    body: Callable[..., tuple[Any, ...]],
    loop_counts: Any,
    *buffers: Any,
    step: int = 1,
    is_delayed: bool = False,
) -> tuple[Any, ...]:
    """Run ``body(number, *buffers) -> buffers`` in a loop, `step` times in each turn.

    `loop_counts` is the number of turns. If the chain `is_delayed`, it is that number and the steps
    of the busy loop that follows each collective. Returns how many turns ran, so that their number
    can be checked, and the buffers.
    """
    turns, busy_steps = loop_counts if is_delayed else (loop_counts, 0)

    def turn(state: tuple[Any, ...]) -> tuple[Any, ...]:
        count, *values = state
        zero: Any = 0
        for number in range(step):
            values = [*body(number, *values)]
            zero += busy(count + number, busy_steps) if is_delayed else 0
        return count + 1 + zero, *values

    start = (jnp.zeros_like(turns), *buffers)
    end: tuple[Any, ...] = jax.lax.while_loop(lambda state: state[0] < turns, turn, start)
    return end


def lower_over(
    mesh: Mesh,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    out_specs: Any,
    donated: Sequence[int] = (),
) -> Any:
    """Lower a function of each rank's part of its `arguments`, by their shardings."""
    in_specs = jax.tree.map(lambda argument: argument.sharding.spec, tuple(arguments))
    mapped = versions.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    return jax.jit(mapped, donate_argnums=donated, keep_unused=True).lower(*arguments)


def distribute(values: Any, sharding: Any) -> jax.Array:
    """Put the values of all ranks, which all processes have, on the devices of this process."""
    if sharding.is_fully_addressable:
        # With a single process this is the faster way.
        array: jax.Array = jax.device_put(values, sharding)
        return array
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


def axes_of(case: Case, mesh: Mesh) -> tuple[str, ...]:
    """Return the axes of the mesh along which a case runs."""
    return names_of(case.axes) if case.axes else tuple(mesh.axis_names)


def lower(case: Case, mesh: Mesh, device: Device) -> tuple[Any, int]:
    """Lower the program of a case for an accelerator; return it and the step of its loop."""
    rounds = Values(case, jnp.dtype(case.dtype)).most_rounds()
    form = form_of(case, axes_of(case, mesh), rounds, device=device, is_virtual=False)
    return form.lower(case, mesh), max(1, form.step)


def host_bytes(case: Case) -> int:
    """Return the memory of all ranks: inputs, results, and the copies that XLA makes."""
    collective = COLLECTIVES[case.collective]
    inputs = collective.input_bytes(case.payload_bytes, case.group_size)
    outputs = collective.output_bytes(case.payload_bytes, case.group_size)
    temporary = 0 if collective.copy_free else 2 * case.payload_bytes
    if case.clock is Clock.DISPATCH and case.placement == Placement.OUT_OF_PLACE.value:
        # The last result is released only after the next one exists.
        temporary += outputs
    return case.ranks * (inputs + outputs + temporary)

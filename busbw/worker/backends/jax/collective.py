"""A chain of collectives in JAX: its loop, its buffers, and its lowering over a mesh.

A chain runs several collectives in a loop, one after the other. To lower a function means to make
XLA's input of it, which can then be compiled. A donated buffer is an argument whose memory the
result may use.

On the CPU a chain in place goes from a donated buffer to a second donated buffer and back, so that
neither page faults nor copies are timed. Out of place, each turn of the loop passes the input and
the result through an optimization barrier, which costs no time. Without the barrier XLA would move
the collective out of the loop.

XLA for GPUs runs a small all-reduce by a kernel of its own, which writes to another buffer. In a
loop with a single all-reduce XLA would copy the result back. With two all-reduces in the loop the
second all-reduce writes to the first buffer, and there is no copy.
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
from busbw.model.machine import axis_names
from busbw.model.words import MIB, Clock, DeviceClass, Placement

from ..base import unavailable
from ..values import CaseValues
from . import lowerings, versions
from .injection import run_busy_loop

# The sharding of values that are equal on all devices.
REPLICATED = PartitionSpec()

# Above this payload the loop's body on the CPU has two collectives instead of four, because each
# collective takes long compared with the overhead of a turn.
_LARGE_PAYLOAD_BYTES = 16 * MIB

# The largest payload that XLA for GPUs may reduce by its own kernel, from jaxlib 0.11.2 on.
_MAX_OWN_KERNEL_BYTES = 4 * MIB

# A function that runs a collective: it takes the input of a rank, and returns the rank's result.
_Operation = Callable[[Any], Any]


@dataclass(frozen=True)
class UncompiledProgram:
    """The function and the buffers from which the program of a case is compiled.

    Attributes:
        function: The function that runs on each rank, called as
            ``function(loop_counts, *buffers)``. The function returns ``(turns, *buffers)``, where
            ``turns`` is the number of turns of the loop that ran. `run_chain` explains
            ``loop_counts``.
        element_counts: The number of elements of each buffer on a rank.
        result_index: The index of the returned buffer that holds the result.
        iterations_per_turn: The number of collectives in the loop's body, 0 without a loop.
        donates_buffers: Whether a call consumes its buffers, so that the next call needs the
            buffers that this call returned.
        has_delay: Whether a busy loop, the injected delay, follows each collective.

    """

    function: Callable[..., Any]
    element_counts: tuple[int, ...]
    result_index: int
    iterations_per_turn: int
    donates_buffers: bool = True
    has_delay: bool = False

    def buffer_shapes(self, case: Case, mesh: Mesh) -> list[jax.ShapeDtypeStruct]:
        """Return the shape, dtype and sharding of each buffer, as an array over all ranks."""
        sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
        return [
            jax.ShapeDtypeStruct((case.ranks * count,), jnp.dtype(case.dtype), sharding=sharding)
            for count in self.element_counts
        ]

    def lower(self, case: Case, mesh: Mesh) -> jax.stages.Lowered:
        """Lower the program of `case` for all ranks of `mesh`, and return the lowered program.

        The lowered program is XLA's input, and can be compiled.
        """
        scalar = jax.ShapeDtypeStruct((), np.int32, sharding=NamedSharding(mesh, REPLICATED))
        loop_counts = (scalar, scalar) if self.has_delay else scalar
        arguments = [loop_counts, *self.buffer_shapes(case, mesh)]
        out_specs = (REPLICATED, *[PartitionSpec(mesh.axis_names)] * len(self.element_counts))
        donated = range(1, len(arguments)) if self.donates_buffers else ()
        return lower_over_mesh(mesh, self.function, arguments, out_specs, tuple(donated))


def choose_uncompiled_program(
    case: Case,
    axes: tuple[str, ...],
    max_exact_iterations: int,
    *,
    device: DeviceClass,
    is_virtual: bool,
    has_delay: bool = False,
) -> UncompiledProgram:
    """Return the function and the buffers of the program that measures a case.

    The function and the buffers depend on the clock, the placement, the class of device and the
    payload of the case.

    Args:
        case: the case.
        axes: the names of the axes of the mesh along which the collective runs.
        max_exact_iterations: the largest number of iterations in a chain whose values are exact.
        device: the class of device.
        is_virtual: whether the devices are parts of a CPU.
        has_delay: whether a busy loop, the injected delay, follows each collective.

    Raises:
        MeasuringError: UNAVAILABLE if `lowerings` has no function with the collective's name.

    """
    element_bytes = jnp.dtype(case.dtype).itemsize
    collective = COLLECTIVES[case.collective]
    inputs = collective.input_bytes(case.payload_bytes, case.group_size) // element_bytes
    outputs = collective.output_bytes(case.payload_bytes, case.group_size) // element_bytes
    lowering = getattr(lowerings, case.collective, None)
    if lowering is None:
        raise unavailable(f"JAX has no {case.collective} here")
    operation = partial(lowering, case, axes)
    in_place = case.placement == Placement.IN_PLACE.value
    if case.clock is Clock.DISPATCH:
        single = partial(_run_once, operation)
        return UncompiledProgram(
            single, (inputs,), result_index=0, iterations_per_turn=0, donates_buffers=in_place
        )
    per_cpu_turn = 2 if max_exact_iterations < 4 or case.payload_bytes > _LARGE_PAYLOAD_BYTES else 4
    body: Callable[..., tuple[Any, ...]]
    counts: tuple[int, ...]
    if not in_place:
        # Several collectives in a body would have the same input, and XLA would merge them.
        body, counts, index, per_turn = _run_out_of_place, (inputs, outputs), 1, 1
    elif is_virtual:
        body, counts, index, per_turn = _run_between_buffers, (inputs, inputs), 0, per_cpu_turn
    else:
        body, counts, index, per_turn = _run_in_place, (inputs,), 0, 1
        if device is DeviceClass.GPU and case.payload_bytes <= _MAX_OWN_KERNEL_BYTES:
            per_turn = min(2, max(1, max_exact_iterations))
    function = partial(
        run_chain, partial(body, operation), iterations_per_turn=per_turn, has_delay=has_delay
    )
    return UncompiledProgram(function, counts, index, per_turn, has_delay=has_delay)


def _run_once(operation: _Operation, turns: jax.Array, values: jax.Array) -> tuple[Any, ...]:
    """Run `operation`, a collective, once on `values`; return (`turns` unchanged, result)."""
    return turns, operation(values)


def _run_between_buffers(
    operation: _Operation, index_in_turn: int, first_buffer: Any, second_buffer: Any
) -> tuple[Any, ...]:
    """Run a collective from one of two buffers to the other, and return both buffers.

    `index_in_turn` is the index of the collective in its turn of the loop. If the index is even,
    the input is in the first buffer, and the result goes to the second. If the index is odd, the
    input is in the second buffer.
    """
    if index_in_turn % 2 == 0:
        return first_buffer, operation(first_buffer)
    return operation(second_buffer), second_buffer


def _run_in_place(operation: _Operation, _: int, values: Any) -> tuple[Any, ...]:
    """Run `operation`, a collective, on `values`; return a tuple of only the result."""
    return (operation(values),)


def _run_out_of_place(operation: _Operation, _: int, values: Any, result: Any) -> tuple[Any, ...]:
    """Run `operation`, a collective, on `values`; return (`values` unchanged, the new result).

    `result` is the buffer of the previous result, whose values are not used. An optimization
    barrier keeps XLA from moving the collective out of the loop.
    """
    buffers: tuple[Any, ...] = jax.lax.optimization_barrier((values, operation(values)))
    return buffers


def run_chain(
    body: Callable[..., tuple[Any, ...]],
    loop_counts: Any,
    *buffers: Any,
    iterations_per_turn: int = 1,
    has_delay: bool = False,
) -> tuple[Any, ...]:
    """Run a chain of collectives on a rank, one after the other in a loop.

    Args:
        body: runs a collective, as ``body(index_in_turn, *buffers)``, and returns the buffers.
            ``index_in_turn`` is the index of the collective in its turn of the loop, from 0 on.
        loop_counts: the number of turns of the loop. With `has_delay`, a pair: this number, and
            the number of steps of the busy loop that follows each collective.
        buffers: the buffers with the starting values.
        iterations_per_turn: the number of collectives in each turn.
        has_delay: whether a busy loop follows each collective.

    Returns:
        A tuple: first the number of turns that ran, then the buffers after the last collective.

    """
    turns, busy_steps = loop_counts if has_delay else (loop_counts, 0)

    def run_turn(state: tuple[Any, ...]) -> tuple[Any, ...]:
        count, *values = state
        zero: Any = 0
        for index_in_turn in range(iterations_per_turn):
            values = [*body(index_in_turn, *values)]
            zero += run_busy_loop(count + index_in_turn, busy_steps) if has_delay else 0
        return count + 1 + zero, *values

    start = (jnp.zeros_like(turns), *buffers)
    end: tuple[Any, ...] = jax.lax.while_loop(lambda state: state[0] < turns, run_turn, start)
    return end


def lower_over_mesh(
    mesh: Mesh,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    out_specs: Any,
    donated_indices: Sequence[int] = (),
) -> jax.stages.Lowered:
    """Lower a function that runs on each rank of a mesh, and return the lowered program.

    The lowered program is XLA's input, and can be compiled.

    Args:
        mesh: the mesh of devices, with a device for each rank.
        function: takes a rank's part of each argument, and returns the rank's part of each result.
        arguments: the arguments or their shapes over all ranks, with their shardings.
        out_specs: the PartitionSpec of each result: how the result is spread over the mesh.
        donated_indices: the indices of arguments whose memory the results may use.

    """
    in_specs = jax.tree.map(lambda argument: argument.sharding.spec, tuple(arguments))
    mapped = versions.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    return jax.jit(mapped, donate_argnums=donated_indices, keep_unused=True).lower(*arguments)


def put_on_devices(values: Any, sharding: Any) -> jax.Array:
    """Copy each rank's part of `values` to the device of the rank, and return the JAX array.

    `values` is a numpy array with the values of all ranks, and is equal in all processes. Each
    process fills its own devices. The `sharding` says which part of `values` each device gets.
    """
    if sharding.is_fully_addressable:
        # In a single process `device_put` is faster.
        array: jax.Array = jax.device_put(values, sharding)
        return array
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


def collective_axes(case: Case, mesh: Mesh) -> tuple[str, ...]:
    """Return the names of the axes of `mesh` along which the collective of a case runs."""
    return axis_names(case.axes) if case.axes else tuple(mesh.axis_names)


def lower_accelerator_program(
    case: Case, mesh: Mesh, device: DeviceClass
) -> tuple[jax.stages.Lowered, int]:
    """Lower the program by which a case is measured on accelerators, which need not be attached.

    `mesh` is a mesh of accelerators of the class `device`. Returns the lowered program, which can
    be compiled, and the number of collectives in each turn of its loop.
    """
    max_exact = CaseValues(case, jnp.dtype(case.dtype)).max_exact_iterations()
    uncompiled = choose_uncompiled_program(
        case, collective_axes(case, mesh), max_exact, device=device, is_virtual=False
    )
    return uncompiled.lower(case, mesh), max(1, uncompiled.iterations_per_turn)

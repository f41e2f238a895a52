"""Compiles, proves and calls the program of a case in JAX, and compares its results.

The program is compiled, or loaded from the session's cache, and proved once in a launch. On an
accelerator the devices compare the results, and report the ranks whose results are right in every
element. Only the results of other ranks are copied to the host and compared by the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.model.case import Case
from busbw.model.words import MIB, DeviceClass

from .. import hlo, hlo_proof
from ..base import wrong_world
from ..framework import ChainProgram
from ..recordings import end_by_begin_instruction_of
from ..values import CaseValues, array_at_address
from .collective import (
    REPLICATED,
    UncompiledProgram,
    choose_uncompiled_program,
    collective_axes,
    lower_over_mesh,
    put_on_devices,
)

# Up to this payload, the first buffers are made on the host.
_FROM_HOST_BYTES = 4 * MIB

# The number of elements that a device compares at once.
_CHUNK_ELEMENTS = 2**18


@final
class JaxProgram(ChainProgram):
    """The compiled program of a case in JAX, over the devices of a mesh.

    Args:
        case: the case.
        mesh: the mesh of devices, with a device for each rank.
        is_virtual: whether the devices are parts of a CPU, and use the memory of the host.
        has_delay: whether a busy loop, the injected delay, follows each collective.
        values_type: the class that makes the starting values and the exact results.

    Attributes:
        delay_steps: The number of steps of the busy loop that is the injected delay. The busy loop
            runs only in calls that are made while the attribute `is_injecting` is true.

    """

    delay_steps: int = 0

    def __init__(
        self,
        case: Case,
        mesh: Mesh,
        *,
        is_virtual: bool,
        has_delay: bool = False,
        values_type: type[CaseValues] = CaseValues,
    ) -> None:
        devices = set(mesh.devices.flat)
        if len(devices) != case.ranks:
            raise wrong_world(f"{len(devices)} devices take part, expected {case.ranks}")
        values = values_type(case, jnp.dtype(case.dtype))
        max_exact, axes = values.max_exact_iterations(), collective_axes(case, mesh)
        device = DeviceClass(mesh.devices.flat[0].platform)
        uncompiled = choose_uncompiled_program(
            case, axes, max_exact, device=device, is_virtual=is_virtual, has_delay=has_delay
        )
        super().__init__(case, values)
        self._uncompiled, self._mesh = uncompiled, mesh
        self.iterations_per_turn = max(1, uncompiled.iterations_per_turn)
        self.max_iterations = self.max_chain_iterations(max_exact)
        self._shapes = uncompiled.buffer_shapes(case, mesh)
        self._write_start = self._ranks_with_right_result = None
        if not is_virtual:
            self._write_start = _compile_starting_values_writer(case, mesh, uncompiled, values)
        if not is_virtual and values_type is CaseValues:
            self._ranks_with_right_result = _compile_result_check(case, mesh, values)
        self._peak_before_bytes = self._highest_peak_bytes()
        self._replicated = NamedSharding(mesh, REPLICATED)
        begun_s = time.perf_counter()
        self._call = uncompiled.lower(case, mesh).compile()
        self.compile_s = time.perf_counter() - begun_s
        self.compiled_memory_bytes = _compiled_memory_bytes(self._call)
        text: Any = self._call.as_text()
        self.proof = hlo_proof.prove(
            text, hlo_proof.ExpectedLoop(case, self.iterations_per_turn, device, has_delay)
        )
        self.end_by_begin_instruction = end_by_begin_instruction_of(hlo.read_module(text))

    def release_memory(self) -> None:
        self.inputs = self.result = None

    def device_peak_bytes(self) -> int | None:
        """Return the most memory that a device of this process used for this program, in bytes.

        Returns None if JAX does not report memory, or if an earlier program used as much memory:
        JAX reports only the peak since its start.
        """
        peak_bytes = self._highest_peak_bytes()
        return peak_bytes if peak_bytes > self._peak_before_bytes else None

    def _highest_peak_bytes(self) -> int:
        """Return the most memory that a device of this process used since JAX's start, in bytes.

        Returns 0 if JAX does not report memory.
        """
        counts = [device.memory_stats() or {} for device in self._mesh.local_devices]
        return max(int(count.get("peak_bytes_in_use", 0)) for count in counts)

    def _write_draw(self, draw_number: int) -> None:
        self.inputs = self.inputs or self._make_zeroed_buffers()
        if self._write_start is not None:
            self.inputs = self._write_start(draw_number, *self.inputs)
        jax.block_until_ready(self.inputs)
        if self._write_start is None:
            shards = self._shards_by_rank(self.inputs[0]).items()
            # A virtual device uses its memory only during a call, so the host may write to it now.
            self.values.write_starting_values(
                draw_number,
                {
                    rank: array_at_address(shard.unsafe_buffer_pointer(), shard.size, shard.dtype)
                    for rank, shard in shards
                },
            )

    def _make_zeroed_buffers(self) -> tuple[jax.Array, ...]:
        """Make the buffers of the program, filled with zeros, and return them.

        Each buffer is a JAX array over all devices of the program. Small buffers are copied from
        the host, because a program that makes zeros on the devices would have to be compiled.
        """
        if self._case.payload_bytes <= _FROM_HOST_BYTES:
            return tuple(
                put_on_devices(np.zeros(shape.shape, shape.dtype), shape.sharding)
                for shape in self._shapes
            )
        make_zeros = jax.jit(
            lambda: tuple(jnp.zeros(shape.shape, shape.dtype) for shape in self._shapes),
            out_shardings=tuple(shape.sharding for shape in self._shapes),
        )
        buffers: tuple[jax.Array, ...] = make_zeros()
        return buffers

    def _run_and_count_turns(self, iterations: int) -> tuple[Any, Any]:
        loop_counts = self._replicate_number(iterations // self.iterations_per_turn)
        if self._uncompiled.has_delay:
            busy_steps = self.delay_steps if self.is_injecting else 0
            loop_counts = loop_counts, self._replicate_number(busy_steps)
        counted, *buffers = self._call(loop_counts, *self.inputs)
        jax.block_until_ready(buffers)
        if self._uncompiled.donates_buffers:
            self.inputs = tuple(buffers)
        return counted, buffers[self._uncompiled.result_index]

    def _shards_by_rank(self, values: jax.Array) -> dict[int, Any]:
        """Return the part of `values` on each device of this process, by the device's rank.

        The ranks are in rising order. Each part is a JAX array on a single device.
        """
        ranks = {device: rank for rank, device in enumerate(self._mesh.devices.flat)}
        shards = [shard for shard in values.addressable_shards if shard.device in ranks]
        return dict(sorted((ranks[shard.device], shard.data) for shard in shards))

    def _replicate_number(self, number: int) -> Any:
        """Copy `number` to each device of the mesh; return a JAX array, an integer of 32 bits."""
        return put_on_devices(np.array(number, np.int32), self._replicated)

    def _check_and_count_results(self, draw_number: int, iterations: int) -> int:
        """Compare the result on each rank of this process with the exact result of the chain.

        The chain began with the draw with the number `draw_number`, and had `iterations`
        collectives. Accelerators compare their results themselves. A result that an accelerator
        finds wrong is compared again on the host, to name the wrong element. Returns the number of
        compared elements. Raises MeasuringError WRONG_RESULT if a result is wrong, or WRONG_WORLD
        if a device of this process has no result.
        """
        shards = self._shards_by_rank(self.result)
        count, check = len(self._mesh.local_devices), self._ranks_with_right_result
        if len(shards) != count:
            raise wrong_world(f"the result is on {len(shards)} devices, expected {count}")
        right = check(draw_number, iterations, self.result) if check else frozenset()
        doubtful = {rank: np.asarray(shard) for rank, shard in shards.items() if rank not in right}
        self.values.check_results(draw_number, iterations, doubtful)
        return sum(int(shard.size) for shard in shards.values())

    def _first_rank_result(self) -> tuple[int, Any]:
        rank, shard = next(iter(self._shards_by_rank(self.result).items()))
        return rank, np.asarray(shard)

    def results_by_rank(self) -> dict[int, Any]:
        return {
            rank: np.asarray(shard) for rank, shard in self._shards_by_rank(self.result).items()
        }


def _compile_starting_values_writer(
    case: Case, mesh: Mesh, uncompiled: UncompiledProgram, values: CaseValues
) -> Callable[..., tuple[jax.Array, ...]]:
    """Compile a program that writes starting values into buffers, and return a function for it.

    The program runs on accelerators.

    Args:
        case: the case.
        mesh: the mesh of devices.
        uncompiled: the UncompiledProgram of the case, which has the sizes of the buffers.
        values: makes the starting values.

    Returns:
        A function that is called as ``write(draw_number, *buffers)``, and returns the buffers. The
        first returned buffer has the starting values of the draw with this number.

    """
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    # `draws` has the starting values of all draws, of the shape (blocks, period) on each rank. The
    # inputs of extensions come last, so that their numbers -1, -2 and so on are their indices.
    numbers = [*range(values.draw_count), *range(-len(values.first_call_readers), 0)]
    draws = [
        put_on_devices(
            np.stack([values.starting_values(rank, number) for rank in range(case.ranks)]), sharding
        )
        for number in numbers
    ]
    count, (_, blocks, period) = uncompiled.element_counts[0], draws[0].shape

    def fill_first_buffer(draw: jax.Array, *buffers: jax.Array) -> tuple[jax.Array, ...]:
        length = count // blocks
        tiled = jnp.tile(draw[0], (1, -(-length // period)))[:, :length]
        return (tiled.reshape(count), *buffers[1:])

    arguments = [draws[0], *uncompiled.buffer_shapes(case, mesh)]
    out_specs = (PartitionSpec(mesh.axis_names),) * len(uncompiled.element_counts)
    donated = tuple(range(1, len(arguments)))
    compiled = lower_over_mesh(mesh, fill_first_buffer, arguments, out_specs, donated).compile()
    return lambda number, *buffers: compiled(draws[number], *buffers)


def _compile_result_check(
    case: Case, mesh: Mesh, values: CaseValues
) -> Callable[[int, int, jax.Array], frozenset[int]]:
    """Compile a program by which accelerators compare their results; return a function for it.

    The function is called as ``ranks_with_right_result(draw, iterations, result)``, after a chain
    of ``iterations`` collectives that began with the draw with the number ``draw``. The function
    returns the ranks of this process whose part of ``result`` is right in every element. `values`
    computes the exact results.
    """
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))

    def expected_results(draw: int, iterations: int) -> Any:
        """Return the exact values of all ranks, of the shape (ranks, blocks, period)."""
        return np.stack(
            [values.exact_values_after(rank, draw, iterations) for rank in range(case.ranks)]
        )

    shapes = [
        jax.ShapeDtypeStruct(shape, case.dtype, sharding=sharding)
        for shape in (expected_results(0, 1).shape, (case.ranks * values.elements_per_result,))
    ]
    compiled = lower_over_mesh(mesh, _count_wrong_chunks, shapes, sharding.spec).compile()

    def ranks_with_right_result(draw: int, iterations: int, result: jax.Array) -> frozenset[int]:
        expected = put_on_devices(expected_results(draw, iterations), sharding)
        shards = compiled(expected, result).addressable_shards
        return frozenset(
            int(shard.index[0].start or 0) for shard in shards if not np.asarray(shard.data).any()
        )

    return ranks_with_right_result


def _count_wrong_chunks(expected: jax.Array, values: jax.Array) -> jax.Array:
    """Return the number of chunks of a rank's buffer that contain a wrong element.

    A chunk is a part of a block that is compared at once. The ends of all blocks, which are shorter
    than a chunk, count as one chunk. `values` is the flat buffer. `expected` has the shape
    (1, blocks, period), with the exact values that each block repeats. The values are repeated for
    one chunk at a time, to use little memory. The result has the shape (1).
    """
    _, blocks, period = expected.shape
    length = values.shape[0] // blocks
    chunk = max(period, min(length, _CHUNK_ELEMENTS) // period * period)
    whole = length // chunk

    def add_if_wrong(index: Any, wrong_count: Any) -> Any:
        block, part = index // max(1, whole), index % max(1, whole)
        begin = jnp.uint32(block) * jnp.uint32(length) + jnp.uint32(part * chunk)
        exact = jnp.tile(expected[0, block], chunk // period)
        got = jax.lax.dynamic_slice(values, (begin,), (chunk,))
        return wrong_count + jnp.any(got != exact)

    tail = values.reshape(blocks, length)[:, whole * chunk :]
    exact = jnp.tile(expected[0], (1, chunk // period))[:, : tail.shape[1]]
    first = jnp.any(tail != exact).astype(jnp.int32)
    chunks = whole * blocks
    count: jax.Array = jax.lax.fori_loop(0, chunks, add_if_wrong, first) if chunks else first
    return count.reshape(1)


def _compiled_memory_bytes(compiled: jax.stages.Compiled) -> int | None:
    """Return the bytes of memory that a compiled program needs on a rank.

    The arguments and the results of the program are included. Returns None if the compiler does not
    report the memory.
    """
    stats = compiled.memory_analysis()
    if stats is None:
        return None
    return int(
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
    )

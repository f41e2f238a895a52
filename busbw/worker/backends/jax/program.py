"""A program in JAX: compiled once, called on buffers, compared on each rank.

The result on an accelerator is compared on its devices, which report the ranks whose results are
right to the last element. Only other results are copied to the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.words import MIB, Device

from ..base import unavailable, wrong_world
from ..chain import Chain
from ..hlo import module as hlo
from ..hlo import proof
from ..recordings import timed_instructions
from ..values import Values, memory_at
from .collective import EVERYWHERE, Form, axes_of, distribute, form_of, lower_over

# Buffers up to this size are made on the host.
_FROM_HOST_BYTES = 4 * MIB

_STRETCH = 2**18


class DeviceCheck:
    """A comparison of results on the devices, compiled once for the shape of a case's result."""

    def __init__(self, case: Case, mesh: Mesh, values: Values) -> None:
        self._case = case
        self._values = values
        collective = COLLECTIVES[case.collective]
        size = collective.output_bytes(case.payload_bytes, case.group_size)
        self._count = size // jnp.dtype(case.dtype).itemsize
        self._sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
        shapes = [
            jax.ShapeDtypeStruct(shape, case.dtype, sharding=self._sharding)
            for shape in (self._expected(0, 1).shape, (case.ranks * self._count,))
        ]
        spec = self._sharding.spec
        self._wrong = lower_over(mesh, self._wrong_stretches, shapes, spec).compile()

    def right_ranks(self, draw: int, iterations: int, result: jax.Array) -> frozenset[int]:
        """Return the ranks of this process whose results are right to the last element."""
        expected = distribute(self._expected(draw, iterations), self._sharding)
        shards = self._wrong(expected, result).addressable_shards
        return frozenset(
            int(shard.index[0].start or 0) for shard in shards if not np.asarray(shard.data).any()
        )

    def _expected(self, draw: int, iterations: int) -> Any:
        ranks = range(self._case.ranks)
        return np.stack([self._values.after(rank, draw, iterations) for rank in ranks])

    def _wrong_stretches(self, expected: jax.Array, values: jax.Array) -> jax.Array:
        """Count the wrong stretches of a rank; in stretches the exact values take little memory."""
        _, blocks, period = expected.shape
        length = self._count // blocks
        stretch = max(period, min(length, _STRETCH) // period * period)
        whole = length // stretch

        def compare(i: Any, wrong: Any) -> Any:
            block, part = i // max(1, whole), i % max(1, whole)
            begin = jnp.uint32(block) * jnp.uint32(length) + jnp.uint32(part * stretch)
            exact = jnp.tile(expected[0, block], stretch // period)
            got = jax.lax.dynamic_slice(values, (begin,), (stretch,))
            return wrong + jnp.any(got != exact)

        tail = values.reshape(blocks, length)[:, whole * stretch :]
        exact = jnp.tile(expected[0], (1, stretch // period))[:, : tail.shape[1]]
        first = jnp.any(tail != exact).astype(jnp.int32)
        turns = whole * blocks
        count: jax.Array = jax.lax.fori_loop(0, turns, compare, first) if turns else first
        return count.reshape(1)


@final
class JaxProgram(Chain):
    """The chain of a case over a mesh.

    `is_virtual`: the devices are parts of a CPU, whose memory is the host's. If the program
    `is_delayed`, a busy loop of `delay_steps` follows each collective while it is injecting.
    """

    delay_steps: int = 0

    def __init__(
        self,
        case: Case,
        mesh: Mesh,
        *,
        is_virtual: bool,
        is_delayed: bool = False,
        values_of: Callable[[Case, Any], Values] = Values,
    ) -> None:
        devices = set(mesh.devices.flat)
        if len(devices) != case.ranks:
            raise wrong_world(f"{len(devices)} devices take part, expected {case.ranks}")
        values = values_of(case, jnp.dtype(case.dtype))
        rounds, axes = values.most_rounds(), axes_of(case, mesh)
        device = Device(mesh.devices.flat[0].platform)
        form = form_of(
            case, axes, rounds, device=device, is_virtual=is_virtual, is_delayed=is_delayed
        )
        super().__init__(case, values)
        self._form, self._mesh = form, mesh
        self.step, self.most_iterations = max(1, form.step), _most_iterations(case, rounds, form)
        self._shapes = form.shapes(case, mesh)
        self._start = None if is_virtual else _start_program(case, mesh, form, values)
        has_device_check = not is_virtual and values_of is Values
        self._device_check = DeviceCheck(case, mesh, values) if has_device_check else None
        self._peak_before_bytes = self._peak_bytes()
        self._everywhere = NamedSharding(mesh, EVERYWHERE)
        begun_s = time.perf_counter()
        self._call = form.lower(case, mesh).compile()
        self.compile_s = time.perf_counter() - begun_s
        self.compiled_memory_bytes = _memory_bytes(self._call)
        text = self._call.as_text()
        expected = proof.expect(case, self.step, device=device, has_injection=is_delayed)
        self.proof = proof.prove(text, expected)
        self.timed = timed_instructions(hlo.read(text))

    def release(self) -> None:
        self.inputs = self.result = None

    def device_peak_bytes(self) -> int | None:
        """Return the highest use of any device, None if an earlier program's was higher.

        JAX cannot reset it.
        """
        peak_bytes = self._peak_bytes()
        return peak_bytes if peak_bytes > self._peak_before_bytes else None

    def _peak_bytes(self) -> int:
        counts = [device.memory_stats() or {} for device in self._mesh.local_devices]
        return max(int(count.get("peak_bytes_in_use", 0)) for count in counts)

    def _write(self, draw: int) -> None:
        self.inputs = self.inputs or self._new_buffers()
        if self._start is not None:
            self.inputs = self._start(draw, *self.inputs)
        jax.block_until_ready(self.inputs)
        if self._start is None:
            shards = self._shards(self.inputs[0]).items()
            # A device of the CPU uses the memory only during a call.
            self.values.write(
                draw,
                {
                    rank: memory_at(shard.unsafe_buffer_pointer(), shard.size, shard.dtype)
                    for rank, shard in shards
                },
            )

    def _new_buffers(self) -> tuple[jax.Array, ...]:
        """Make buffers of zeros. Small ones come from the host: a program must be compiled."""
        shapes = tuple(self._shapes)
        if self._case.payload_bytes <= _FROM_HOST_BYTES:
            return tuple(
                distribute(np.zeros(shape.shape, shape.dtype), shape.sharding) for shape in shapes
            )
        make_zeros = jax.jit(
            lambda: tuple(jnp.zeros(shape.shape, shape.dtype) for shape in shapes),
            out_shardings=tuple(shape.sharding for shape in shapes),
        )
        buffers: tuple[jax.Array, ...] = make_zeros()
        return buffers

    def _run(self, iterations: int) -> tuple[Any, Any]:
        loop_counts = self._on_all(iterations // self.step)
        if self._form.is_delayed:
            busy_steps = self.delay_steps if self.is_injecting else 0
            loop_counts = loop_counts, self._on_all(busy_steps)
        counted, *buffers = self._call(loop_counts, *self.inputs)
        jax.block_until_ready(buffers)
        if self._form.is_donated:
            self.inputs = tuple(buffers)
        return counted, buffers[self._form.result]

    def _shards(self, values: jax.Array) -> dict[int, Any]:
        """Return the arrays on the devices of this process, in the order of their ranks."""
        ranks = {device: rank for rank, device in enumerate(self._mesh.devices.flat)}
        shards = [shard for shard in values.addressable_shards if shard.device in ranks]
        return dict(sorted((ranks[shard.device], shard.data) for shard in shards))

    def _on_all(self, number: int) -> Any:
        return distribute(np.array(number, np.int32), self._everywhere)

    def _compare(self, draw: int, iterations: int) -> int:
        """Compare the results of this process, on the host those that are wrong on the devices."""
        shards = self._shards(self.result)
        count, check = len(self._mesh.local_devices), self._device_check
        if len(shards) != count:
            raise wrong_world(f"the result is on {len(shards)} devices, expected {count}")
        right = check.right_ranks(draw, iterations, self.result) if check else frozenset()
        doubtful = {rank: np.asarray(shard) for rank, shard in shards.items() if rank not in right}
        self.values.check_all(draw, iterations, doubtful)
        return sum(int(shard.size) for shard in shards.values())

    def _first_result(self) -> tuple[int, Any]:
        rank, shard = next(iter(self._shards(self.result).items()))
        return rank, np.asarray(shard)

    def results_by_rank(self) -> dict[int, Any]:
        return {rank: np.asarray(shard) for rank, shard in self._shards(self.result).items()}


def _most_iterations(case: Case, rounds: int, form: Form) -> int:
    """Return how many iterations stay exact in whole turns of the loop; 1 without a loop."""
    most = rounds // form.step * form.step if form.step else 1
    if most == 0:
        raise unavailable(
            f"{case.dtype} holds no exact chain of {form.step} over {case.group_size} ranks"
        )
    return most


def _start_program(
    case: Case, mesh: Mesh, form: Form, values: Values
) -> Callable[..., tuple[jax.Array, ...]]:
    """Return ``(draw, *buffers) -> buffers``, which fills the first buffer on the devices."""
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    # The starting values of all draws, of shape (blocks, period) on each rank. The inputs of
    # extensions are the last draws, so that their numbers -1, -2 and so on are their indices.
    numbers = [*range(values.draws), *range(-len(values.first_calls), 0)]
    draws = [
        distribute(np.stack([values.start(rank, number) for rank in range(case.ranks)]), sharding)
        for number in numbers
    ]
    count, (_, blocks, period) = form.counts[0], draws[0].shape

    def start(draw: jax.Array, *buffers: jax.Array) -> tuple[jax.Array, ...]:
        length = count // blocks
        tiled = jnp.tile(draw[0], (1, -(-length // period)))[:, :length]
        return (tiled.reshape(count), *buffers[1:])

    arguments = [draws[0], *form.shapes(case, mesh)]
    out_specs = (PartitionSpec(mesh.axis_names),) * len(form.counts)
    donated = tuple(range(1, len(arguments)))
    compiled = lower_over(mesh, start, arguments, out_specs, donated).compile()
    return lambda number, *buffers: compiled(draws[number], *buffers)


def _memory_bytes(compiled: Any) -> int | None:
    """Return what one rank's part of a program takes, with arguments and results."""
    stats = compiled.memory_analysis()
    if stats is None:
        return None
    return int(
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
    )

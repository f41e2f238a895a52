"""A program in JAX, of whatever workload: compiled once, called on buffers, compared by rank.

An accelerator's result is compared on the devices, which say which ranks are right to the last
element; only a wrong one is copied to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.launch import Proof
from busbw.program import hlo

from ..base import wrong_world
from ..framework import AbstractChain
from ..recordings import timed_instructions
from ..values import Values, memory_at
from . import versions
from .injection import busy

EVERYWHERE = PartitionSpec()

_CHECKED_AT_ONCE = 2**18


class CheckOnDevices:
    """Compiled once for the shape of a case's result."""

    def __init__(self, case: Case, mesh: jax.sharding.Mesh, values: Values) -> None:
        self._case = case
        self._values = values
        collective = COLLECTIVES[case.collective]
        size = collective.output_bytes(case.payload_bytes, case.group_size)
        self._count = size // jnp.dtype(case.dtype).itemsize
        self._sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
        shapes = [
            jax.ShapeDtypeStruct(shape, case.dtype, sharding=self._sharding)
            for shape in (self._wanted(0, 1).shape, (case.ranks * self._count,))
        ]
        # ``(wanted, result) -> how many stretches are wrong``, each by rank.
        each = self._sharding.spec
        self._wrong = lowered_over(mesh, self._wrong_stretches, shapes, each).compile()

    def right_ranks(self, number: int, iterations: int, result: jax.Array) -> frozenset[int]:
        """To the last element."""
        wanted = placed(self._wanted(number, iterations), self._sharding)
        shards = self._wrong(wanted, result).addressable_shards
        return frozenset(
            int(shard.index[0].start or 0) for shard in shards if not np.asarray(shard.data).any()
        )

    def _wanted(self, number: int, iterations: int) -> Any:
        ranks = range(self._case.ranks)
        return np.stack([self._values.after(rank, number, iterations) for rank in ranks])

    def _wrong_stretches(self, wanted: jax.Array, values: jax.Array) -> jax.Array:
        """In chunks, so that the exact values take little memory."""
        _, blocks, period = wanted.shape
        length = self._count // blocks
        stretch = max(period, min(length, _CHECKED_AT_ONCE) // period * period)
        whole = length // stretch

        def look(i: Any, wrong: Any) -> Any:
            block, part = i // max(1, whole), i % max(1, whole)
            begin = jnp.uint32(block) * jnp.uint32(length) + jnp.uint32(part * stretch)
            exact = jnp.tile(wanted[0, block], stretch // period)
            got = jax.lax.dynamic_slice(values, (begin,), (stretch,))
            return wrong + jnp.any(got != exact)

        rest = values.reshape(blocks, length)[:, whole * stretch :]
        exact = jnp.tile(wanted[0], (1, stretch // period))[:, : rest.shape[1]]
        first = jnp.any(rest != exact).astype(jnp.int32)
        turns = whole * blocks
        found: jax.Array = jax.lax.fori_loop(0, turns, look, first) if turns else first
        return found.reshape(1)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a chain repeats, and what must come of it.

    ``lowered(delayed=...)`` is ``(turns, *buffers) -> (rounds counted, *buffers)``, not compiled
    yet; `delayed`, its first argument is ``(turns, steps of the busy loop)``.
    ``proved(text, delayed=...)`` is the proof of what was compiled. Buffers are of `shapes`; where
    they are `donated`, a call gives new ones. The `result`-th that it gives is the result.
    ``start(number, *buffers)`` lays out a draw on the devices; None where a device's memory is the
    host's, which lays it out in place.
    """

    values: Values
    step: int
    most_iterations: int
    lowered: Callable[..., Any]
    proved: Callable[..., Proof]
    shapes: Sequence[jax.ShapeDtypeStruct]
    start: Callable[..., tuple[jax.Array, ...]] | None
    result: int
    donated: bool
    from_host: bool
    on_devices: CheckOnDevices | None


@final
class JaxProgram(AbstractChain):
    """The chain of `work` over `mesh`.

    If it is `delayed`, its first argument is ``(turns, delay_steps)``: the steps of the busy loop
    that follows each collective, none while nothing is injected.
    """

    delay_steps: int = 0
    _hash: Any = None

    def __init__(self, case: Case, mesh: Mesh, work: Work, *, delayed: bool = False) -> None:
        super().__init__(case, work.values)
        self.step, self.most_iterations = work.step, work.most_iterations
        self._mesh, self._work = mesh, work
        self._peak_before_bytes = self._peak_bytes()
        self._everywhere = NamedSharding(mesh, EVERYWHERE)
        self._buffers: tuple[jax.Array, ...] = ()
        self._aside: tuple[jax.Array, ...] = ()
        self._delayed = delayed
        with self._compiling():
            self._call = work.lowered(delayed=delayed).compile()
        self.compiled_memory_bytes = _memory_bytes(self._call)
        text = self._call.as_text()
        self.proof = work.proved(text, delayed=delayed)
        self.timed = timed_instructions(hlo.read(text))

    def release(self) -> None:
        self._buffers = self._aside = ()
        self._result = None

    def device_peak_bytes(self) -> int | None:
        """The highest use of any device, if this program raised it: JAX cannot reset it."""
        peak_bytes = self._peak_bytes()
        return peak_bytes if peak_bytes > self._peak_before_bytes else None

    def _peak_bytes(self) -> int:
        counts = [device.memory_stats() or {} for device in self._mesh.local_devices]
        return max(int(count.get("peak_bytes_in_use", 0)) for count in counts)

    def _lay_out(self, number: int) -> None:
        self._buffers = self._buffers or self._new_buffers()
        if self._work.start is not None:
            self._buffers = self._work.start(number, *self._buffers)
        jax.block_until_ready(self._buffers)
        if self._work.start is None:
            shards = self._own(self._buffers[0]).items()
            self._values.lay_out(number, {rank: _memory_of(shard.data) for rank, shard in shards})

    def _new_buffers(self) -> tuple[jax.Array, ...]:
        """Small ones come from the host, which is quicker than compiling a program."""
        shapes = tuple(self._work.shapes)
        if self._work.from_host:
            return tuple(placed(np.zeros(one.shape, one.dtype), one.sharding) for one in shapes)
        made = jax.jit(
            lambda: tuple(jnp.zeros(one.shape, one.dtype) for one in shapes),
            out_shardings=tuple(one.sharding for one in shapes),
        )
        found: tuple[jax.Array, ...] = made()
        return found

    def _called(self, iterations: int) -> tuple[Any, Any]:
        asked = self._on_all(iterations // self.step)
        if self._delayed:
            asked = asked, self._on_all(self.delay_steps if self.injecting else 0)
        counted, *buffers = self._call(asked, *self._buffers)
        jax.block_until_ready(buffers)
        if self._work.donated:
            self._buffers = tuple(buffers)
        return counted, buffers[self._work.result]

    def _own(self, values: jax.Array) -> dict[int, Any]:
        """The shards of this process, by rank."""
        ranks = {device: rank for rank, device in enumerate(self._mesh.devices.flat)}
        shards = [one for one in values.addressable_shards if one.device in ranks]
        return {ranks[one.device]: one for one in shards}

    def _on_all(self, number: int) -> Any:
        return placed(np.array(number, np.int32), self._everywhere)

    def _compared(self, number: int, iterations: int) -> int:
        """Wrong ranks again on the host. Of several processes each compares its own."""
        shards = self._own(self._result)
        own, check = len(self._mesh.local_devices), self._work.on_devices
        if len(shards) != own:
            raise wrong_world(f"the result is on {len(shards)} devices, expected {own}")
        right = check.right_ranks(number, iterations, self._result) if check else frozenset()
        doubtful = {
            rank: np.asarray(shards[rank].data) for rank in sorted(shards) if rank not in right
        }
        self._values.check_all(number, iterations, doubtful)
        return sum(int(shard.data.size) for shard in shards.values())

    def _swap(self) -> None:
        self._buffers, self._aside = self._aside, self._buffers

    def _first_result(self) -> tuple[int, Any]:
        rank, shard = min(self._own(self._result).items(), key=lambda one: one[0])
        return rank, np.asarray(shard.data)

    def _results(self) -> dict[int, Any]:
        shards = self._own(self._result)
        return {rank: np.asarray(shards[rank].data) for rank in sorted(shards)}

    def _digests(self) -> tuple[int, ...]:
        """On the devices, but for memory that is the host's."""
        if self._work.start is None:
            return super()._digests()
        if self._hash is None:
            like = jax.ShapeDtypeStruct(
                self._result.shape, self._result.dtype, sharding=self._result.sharding
            )
            each = PartitionSpec(self._mesh.axis_names)
            self._hash = lowered_over(self._mesh, _hashed, (like,), each).compile()
        shards = self._own(self._hash(self._result))
        return tuple(int(shards[rank].data[0]) for rank in sorted(shards))


def _hashed(values: jax.Array) -> jax.Array:
    """The sum of all words, each mixed with its place: another word is another sum.

    The mixing is that of MurmurHash3's end (Appleby, public domain), by which any change of one
    word changes the sum for certain, and any of several but for once in 2^32 times.
    """
    size = values.dtype.itemsize
    words = jax.lax.bitcast_convert_type(values, jnp.dtype(f"uint{8 * size}")).astype(jnp.uint32)
    mixed = words ^ (jax.lax.iota(jnp.uint32, words.shape[0]) * jnp.uint32(0x9E3779B1))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> shift)) * jnp.uint32(factor)
    return jnp.sum(mixed, dtype=jnp.uint32).reshape(1)


def _memory_of(held: jax.Array) -> Any:
    """Of one virtual device: nobody else reads it between two calls."""
    return memory_at(held.unsafe_buffer_pointer(), held.size, held.dtype)


def placed(values: Any, sharding: Any) -> jax.Array:
    """`values` of all ranks, equal in all processes, laid out: each process has its own part."""
    if sharding.is_fully_addressable:
        # Of one process it is the quicker way.
        put: jax.Array = jax.device_put(values, sharding)
        return put
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


def lowered_over(
    mesh: Mesh,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    out_specs: Any,
    donated: Sequence[int] = (),
) -> Any:
    """`function` of each rank's part of its `arguments`, by their shardings; not compiled yet."""
    in_specs = jax.tree.map(lambda one: one.sharding.spec, tuple(arguments))
    mapped = versions.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    return jax.jit(mapped, donate_argnums=donated, keep_unused=True).lower(*arguments)


def asked_shape(mesh: Mesh, *, delayed: bool) -> Any:
    """The first argument of a chain: how many turns, or ``(turns, steps of the busy loop)``."""
    number = jax.ShapeDtypeStruct((), np.int32, sharding=NamedSharding(mesh, EVERYWHERE))
    return (number, number) if delayed else number


def chain(
    one: Callable[..., tuple[Any, ...]],
    asked: Any,
    *buffers: Any,
    step: int = 1,
    delayed: bool = False,
) -> tuple[Any, ...]:
    """``one(number, *buffers) -> buffers``, `step` times a turn; the busy loop follows each.

    The counter comes out, so that what was counted can be compared.
    """
    turns, busy_steps = asked if delayed else (asked, 0)

    def turn(held: tuple[Any, ...]) -> tuple[Any, ...]:
        count, *values = held
        zero: Any = 0
        for number in range(step):
            values = [*one(number, *values)]
            zero += busy(count + number, busy_steps) if delayed else 0
        return count + 1 + zero, *values

    start = (jnp.zeros_like(turns), *buffers)
    held: tuple[Any, ...] = jax.lax.while_loop(lambda held: held[0] < turns, turn, start)
    return held


def _memory_bytes(compiled: Any) -> int | None:
    """What one rank's part of a program takes, arguments and results included."""
    stats = compiled.memory_analysis()
    if stats is None:
        return None
    return int(
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
    )

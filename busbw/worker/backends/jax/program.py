"""What programs in JAX share: compiled once, called on their buffers, compared by rank.

An accelerator's result is compared on the devices, which say which ranks are right to the last
element; only a wrong one is copied to the host.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case

from ..base import wrong_world
from ..framework import AbstractChain, AbstractValues
from ..values import Values
from . import versions
from .injection import busy

EVERYWHERE = PartitionSpec()

_CHECKED_AT_ONCE = 2**18


class JaxProgram(AbstractChain):
    """A chain over `mesh`.

    ``_call(turns, *buffers, *batch)`` gives the rounds counted, and new buffers where they are
    donated; the `_result_at`-th of these is the result. ``_start(draw, *buffers)`` lays out one
    of the `_draws`. All these are the subclass's.

    Work is injected by a second program, `_slowed`, on the same buffers: where buffers lie changes
    a time by more than small injections do. With `delay_steps`, those of its busy loop, its first
    argument is ``(turns, steps)``.
    """

    delay_steps: int | None = None
    _call: Any
    _slowed: Any = None
    _start: Callable[..., tuple[jax.Array, ...]]
    _draws: Sequence[jax.Array]
    _shapes: Sequence[jax.ShapeDtypeStruct]
    _result_at: int = 0
    _donated: bool = True

    def __init__(self, case: Case, mesh: Mesh, values: AbstractValues) -> None:
        super().__init__(case, values)
        self._mesh = mesh
        self._peak_before_bytes = self._peak_bytes()
        self._everywhere = NamedSharding(mesh, EVERYWHERE)
        self._batch: tuple[jax.Array, ...] = ()
        self._buffers: tuple[jax.Array, ...] = ()
        self._on_devices: CheckOnDevices | None = None

    @final
    def _compile(self, lowered: Callable[[], Any], *, slowed: bool = False) -> str:
        with self._compiling():
            compiled = lowered().compile()
        self.compiled_memory_bytes = _memory_bytes(compiled)
        if slowed:
            self._slowed = compiled
        else:
            self._call = compiled
        text: str = compiled.as_text()
        return text

    @final
    def leave_out_injected(self) -> None:
        self._slowed = None

    @final
    def release(self) -> None:
        self._buffers = self._batch = ()
        self._result = None

    @final
    def device_peak_bytes(self) -> int | None:
        """The highest use of any device, if this program raised it: JAX cannot reset it."""
        peak_bytes = self._peak_bytes()
        return peak_bytes if peak_bytes > self._peak_before_bytes else None

    def _peak_bytes(self) -> int:
        counts = [device.memory_stats() or {} for device in self._mesh.local_devices]
        return max(int(count.get("peak_bytes_in_use", 0)) for count in counts)

    @final
    def _lay_out(self, number: int) -> None:
        self._buffers = self._buffers or self._new_buffers()
        self._buffers = self._start(self._draws[number], *self._buffers)
        jax.block_until_ready(self._buffers)

    @final
    def _called(self, iterations: int) -> tuple[Any, Any]:
        call, asked = self._call, self._on_all(iterations // self.step)
        if self.injecting and self._slowed is not None:
            call = self._slowed
            if self.delay_steps is not None:
                asked = asked, self._on_all(self.delay_steps)
        counted, *buffers = call(asked, *self._buffers, *self._batch)
        jax.block_until_ready(buffers)
        if self._donated:
            self._buffers = tuple(buffers)
        return counted, buffers[self._result_at]

    def _on_all(self, number: int) -> Any:
        return placed(np.array(number, np.int32), self._everywhere)

    @final
    def _compared(self, number: int, iterations: int) -> int:
        """Wrong ranks again on the host. Of several processes each compares its own."""
        ranks = {device: rank for rank, device in enumerate(self._mesh.devices.flat)}
        shards = {
            ranks[shard.device]: shard
            for shard in self._result.addressable_shards
            if shard.device in ranks
        }
        own = len(self._mesh.local_devices)
        if len(shards) != own:
            raise wrong_world(f"{self._values.located} on {len(shards)} devices, expected {own}")
        right = (
            self._on_devices.right_ranks(number, iterations, self._result)
            if self._on_devices is not None
            else frozenset()
        )
        doubtful = {
            rank: np.asarray(shards[rank].data) for rank in sorted(shards) if rank not in right
        }
        self._values.check_all(number, iterations, doubtful)
        return sum(int(shard.data.size) for shard in shards.values())

    @final
    def _zeros_from_host(self) -> tuple[jax.Array, ...]:
        return tuple(placed(np.zeros(one.shape, one.dtype), one.sharding) for one in self._shapes)

    @abstractmethod
    def _new_buffers(self) -> tuple[jax.Array, ...]:
        """Buffers of the program's shapes, with any content."""


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

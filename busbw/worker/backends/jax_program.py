"""One case in JAX: its program compiled and proved, run from fresh values, its result checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from busbw.model import MIB, Case, Device, FailureKind, Proof

from . import hlo_proof, jax_lowering, jax_versions
from .base import AbstractProgram, MeasuringError
from .expected import Values
from .jax_anchor import Anchor
from .jax_beside import NOTHING, Beside
from .jax_check import CheckOnDevices
from .jax_forms import form_of

# Buffers up to this size are made on the host.
_FROM_HOST_BYTES = 4 * MIB

# How many draws of starting values take turns.
_DRAWS = 4


class JaxProgram(AbstractProgram):
    """Program, starting values and check, each compiled once for the case's shape."""

    def __init__(
        self,
        case: Case,
        mesh: jax.sharding.Mesh,
        *,
        virtual: bool,
        beside: Beside = NOTHING,
    ) -> None:
        self._case = case
        self._beside = beside
        self._mesh = mesh
        self._check_world()
        self._dtype = jnp.dtype(case.dtype)
        self._values = Values(case, self._dtype)
        rounds = self._values.most_rounds()
        axes = tuple(case.axes) or tuple(mesh.axis_names)
        self._form = form_of(case, axes, rounds, virtual=virtual, beside=beside)
        self.step = max(1, self._form.step)
        self.most_iterations = self._most_iterations(rounds)
        self._each = PartitionSpec(mesh.axis_names)
        self._peak_before_bytes = self._peak_bytes()
        begun_s = time.perf_counter()
        self._call = jax_lowering.lowered(case, mesh, self._form).compile()
        self.compile_s = time.perf_counter() - begun_s
        self.compiled_memory_bytes = jax_lowering.memory_bytes(self._call)
        self.proof = self._prove()
        self._draws = [self._on_ranks(self._values.start, number) for number in range(_DRAWS)]
        self._start = self._compiled_start(self._draws[0], donated=True)
        self._check_on_devices = None if virtual else CheckOnDevices(case, mesh, self._values)
        self._draw = -1
        self._buffers: tuple[jax.Array, ...] = ()
        self._result: Any = None
        self._counted: Any = None
        self._anchor: Anchor | None = None

    def release(self) -> None:
        """Let go of the buffers."""
        self._buffers = ()
        self._result = None

    def fresh(self) -> None:
        """The next draw of starting values on every rank, in the buffers once they are there."""
        self._draw = (self._draw + 1) % _DRAWS
        self._result = None
        if not self._buffers:
            self._buffers = self._new_buffers()
        self._buffers = self._start(self._draws[self._draw], *self._buffers)
        jax.block_until_ready(self._buffers)

    def run(self, iterations: int) -> None:
        """`iterations` collectives in one call, and wait for it."""
        turns = jax.device_put(
            np.int32(iterations // self.step), NamedSharding(self._mesh, PartitionSpec())
        )
        self._counted, *buffers = self._call(turns, *self._buffers)
        jax.block_until_ready(buffers)
        self._result = buffers[self._form.result]
        if self._form.donated:
            self._buffers = tuple(buffers)

    def check(self, iterations: int) -> int:
        """The rounds that the program counted; every element on every rank."""
        counted = int(self._counted) * self.step
        if counted != iterations:
            raise MeasuringError(
                FailureKind.WRONG_RESULT,
                f"the program ran {counted} rounds, expected {iterations}",
            )
        shards = sorted(self._result.addressable_shards, key=lambda shard: shard.index[0].start)
        if len({shard.device for shard in shards}) != self._case.ranks:
            raise MeasuringError(
                FailureKind.WRONG_WORLD,
                f"the result lies on {len(shards)} devices, expected {self._case.ranks}",
            )
        right = (
            self._check_on_devices.right_ranks(self._draw, iterations, self._result)
            if self._check_on_devices is not None
            else frozenset()
        )
        doubtful = {
            rank: np.asarray(shard.data) for rank, shard in enumerate(shards) if rank not in right
        }
        self._values.check_all(self._draw, iterations, doubtful)
        return int(self._result.size)

    def anchor(self, passes: int) -> None:
        """In place in the input buffers; what was the result of the last chain may lie there."""
        self._result = None
        first, *others = self._buffers
        self._anchor = self._anchor or Anchor(self._mesh, first)
        self._buffers = ()
        self._buffers = (self._anchor.run(passes, first), *others)

    def device_peak_bytes(self) -> int | None:
        """The highest use of any device, if this program raised it: JAX cannot start anew."""
        peak_bytes = self._peak_bytes()
        return peak_bytes if peak_bytes > self._peak_before_bytes else None

    def _peak_bytes(self) -> int:
        counts = [device.memory_stats() or {} for device in self._mesh.devices.flat]
        return max(int(count.get("peak_bytes_in_use", 0)) for count in counts)

    def _check_world(self) -> None:
        there = len(set(self._mesh.devices.flat))
        if there != self._case.ranks:
            raise MeasuringError(
                FailureKind.WRONG_WORLD, f"{there} devices take part, expected {self._case.ranks}"
            )

    def _most_iterations(self, rounds: int) -> int:
        if not self._form.step:
            return 1
        most = rounds // self.step * self.step
        if most == 0:
            raise MeasuringError(
                FailureKind.UNAVAILABLE,
                f"{self._case.dtype} holds no exact chain of {self.step} over "
                f"{self._case.group_size} ranks",
            )
        return most

    def _prove(self) -> Proof:
        wanted = hlo_proof.wanted(
            self._case,
            self.step,
            device=Device(self._mesh.devices.flat[0].platform),
            plain=self._beside == NOTHING,
            part_bytes=self._beside.part * self._dtype.itemsize,
        )
        return hlo_proof.prove(self._call.as_text(), wanted)

    def _on_ranks(self, values: Callable[..., Any], *arguments: int) -> jax.Array:
        """``values(rank, ...)``, of shape (blocks, period), on each rank its own."""
        table = np.stack([values(rank, *arguments) for rank in range(self._case.ranks)])
        placed: jax.Array = jax.device_put(table, NamedSharding(self._mesh, self._each))
        return placed

    def _compiled_start(
        self, draw: jax.Array, *, donated: bool
    ) -> Callable[..., tuple[jax.Array, ...]]:
        """``(draw, *buffers) -> buffers`` with the draw, tiled, in the first, in place.

        Not `donated`: ``(draw) -> buffers``, new ones.
        """
        shapes = jax_lowering.shapes(self._case, self._mesh, self._form)
        counts, (_, blocks, period) = self._form.counts, draw.shape

        def start(own: jax.Array, *held: jax.Array) -> tuple[jax.Array, ...]:
            length = counts[0] // blocks
            tiled = jnp.tile(own[0], (1, -(-length // period)))[:, :length]
            others = held[1:] if donated else [self._zeros(count) for count in counts[1:]]
            return (tiled.reshape(counts[0]), *others)

        taken = shapes if donated else []
        mapped = jax_versions.shard_map(
            start,
            mesh=self._mesh,
            in_specs=(self._each,) * (1 + len(taken)),
            out_specs=(self._each,) * len(shapes),
        )
        numbers = tuple(range(1, len(taken) + 1))
        jitted = jax.jit(mapped, donate_argnums=numbers, keep_unused=True)
        compiled: Callable[..., tuple[jax.Array, ...]] = jitted.lower(draw, *taken).compile()
        return compiled

    def _zeros(self, count: int) -> jax.Array:
        """Typed as if ranks differed, as the other buffers are."""
        axes = tuple(self._mesh.axis_names)
        zeros: jax.Array = jax_versions.varying(jnp.zeros(count, self._dtype), axes)
        return zeros

    def _new_buffers(self) -> tuple[jax.Array, ...]:
        """Small ones come from the host, which is quicker than a program for that once."""
        shapes = jax_lowering.shapes(self._case, self._mesh, self._form)
        if self._case.payload_bytes > _FROM_HOST_BYTES:
            return self._compiled_start(self._draws[0], donated=False)(self._draws[0])
        return tuple(jax.device_put(np.zeros(one.shape, one.dtype), one.sharding) for one in shapes)

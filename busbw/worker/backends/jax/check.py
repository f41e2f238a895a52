"""The check on the devices themselves: an accelerator's result is not brought to the host for it.

Says which ranks are right to the last element; what is wrong with another one is for the host.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from busbw.collectives import COLLECTIVES
from busbw.model import Case

from ..expected import Values
from . import versions

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
        self._wrong = self._compiled(mesh, self._wanted(0, 1))

    def right_ranks(self, number: int, iterations: int, result: jax.Array) -> frozenset[int]:
        """Ranks whose every element is right after `iterations` collectives from draw `number`."""
        wanted = jax.device_put(self._wanted(number, iterations), self._sharding)
        wrong = np.asarray(self._wrong(wanted, result))
        return frozenset(int(rank) for rank in np.flatnonzero(wrong == 0))

    def _wanted(self, number: int, iterations: int) -> Any:
        ranks = range(self._case.ranks)
        return np.stack([self._values.after(rank, number, iterations) for rank in ranks])

    def _compiled(self, mesh: jax.sharding.Mesh, wanted: Any) -> Any:
        """``(wanted, result) -> how many stretches are wrong``, each by rank."""
        shapes = [
            jax.ShapeDtypeStruct(shape, self._case.dtype, sharding=self._sharding)
            for shape in (wanted.shape, (self._case.ranks * self._count,))
        ]
        each = self._sharding.spec
        mapped = versions.shard_map(
            self._wrong_stretches, mesh=mesh, in_specs=(each, each), out_specs=each
        )
        return jax.jit(mapped).lower(*shapes).compile()

    def _wrong_stretches(self, wanted: jax.Array, values: jax.Array) -> jax.Array:
        """Stretch by stretch, so that what is compared with takes no memory worth mentioning."""
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

"""The anchor in JAX: every rank reads and writes its own buffer, in place, and nothing more.

A chain of changes of sign: no collective, the same devices, threads and bytes as the case.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from . import jax_versions

_ALL = PartitionSpec()


class Anchor:
    """Compiled once for a buffer's shape, of which each rank has a part, or `copied` all."""

    def __init__(self, mesh: jax.sharding.Mesh, buffer: jax.Array, *, copied: bool = False) -> None:
        self._small = NamedSharding(mesh, _ALL)
        each = _ALL if copied else PartitionSpec(mesh.axis_names)
        mapped = jax_versions.shard_map(
            _passes, mesh=mesh, in_specs=(_ALL, each), out_specs=(_ALL, each)
        )
        self._call: Any = (
            jax.jit(mapped, donate_argnums=(1,))
            .lower(
                jax.ShapeDtypeStruct((), np.int32, sharding=self._small),
                jax.ShapeDtypeStruct(buffer.shape, buffer.dtype, sharding=buffer.sharding),
            )
            .compile()
        )

    def run(self, passes: int, buffer: jax.Array) -> jax.Array:
        """So many passes over `buffer`, which is consumed; waits for the result."""
        _, changed = self._call(jax.device_put(np.int32(passes), self._small), buffer)
        jax.block_until_ready(changed)
        found: jax.Array = changed
        return found


def _passes(passes: jax.Array, values: jax.Array) -> tuple[Any, ...]:
    def one(held: tuple[Any, ...]) -> tuple[Any, ...]:
        count, values = held
        return count + 1, -values

    start = (jnp.zeros_like(passes), values)
    held: tuple[Any, ...] = jax.lax.while_loop(lambda held: held[0] < passes, one, start)
    return held

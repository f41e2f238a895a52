"""JAX's back end, which plants a wrong value: one bit of one element in the results of rank 1.

It is copied beside the back ends of a worker's folder, where `--framework=patched` finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device
from busbw.worker.backends.base import AbstractBackend

_RANK = 1


def load(device: Device | None, ranks: int | None, member: ClusterMember | None) -> AbstractBackend:
    """Return JAX's back end, patched in the process that has the rank."""
    from busbw.worker.backends import jax

    backend: Any = jax.load(device, ranks, member)
    if member is not None and member.index == _RANK:
        backend._program = _planting(backend._program)
    found: AbstractBackend = backend
    return found


def _planting(program_of: Callable[..., Any]) -> Callable[..., Any]:
    def planted(*arguments: Any) -> Any:
        program = program_of(*arguments)
        called = program._called
        program._called = lambda iterations: _flipped(*called(iterations))
        return program

    return planted


def _flipped(counted: Any, result: Any) -> tuple[Any, Any]:
    """Return a result with the lowest bit of this rank's middle element turned over."""
    import jax
    import numpy as np

    (shard,) = result.addressable_shards
    values = np.array(shard.data)
    values.view(np.uint32)[values.size // 2] ^= 1
    own = jax.device_put(values, shard.device)
    return counted, jax.make_array_from_single_device_arrays(result.shape, result.sharding, [own])

"""Programs of JAX for a soak; devices with their own memory compute the hashes of their results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from busbw.model.case import Case
from busbw.model.words import DeviceClass
from busbw.worker.backends.framework import ChainProgram
from busbw.worker.backends.jax.backend import JaxBackend
from busbw.worker.backends.jax.collective import lower_over_mesh

from .worker import SoakProgram
from .worker_values import FrameworkSoakProgram, SoakValues


@contextlib.contextmanager
def prepared_program(backend: JaxBackend, case: Case) -> Iterator[SoakProgram]:
    """Yield the compiled program of `case`, after a check that it contains the case's collective.

    Raises MeasuringError if the program cannot be compiled or does not contain the collective.
    """
    with backend.prepare_program(case, values_type=SoakValues) as chain:
        mesh, is_cpu = backend.mesh(case), backend.device is DeviceClass.CPU
        yield FrameworkSoakProgram(chain) if is_cpu else DeviceHashedProgram(chain, mesh)


class DeviceHashedProgram(FrameworkSoakProgram):
    """A program for a soak on GPUs or TPUs, which compute the hashes of their own results.

    So results need not be copied to the host.
    """

    def __init__(self, chain: ChainProgram, mesh: Mesh) -> None:
        super().__init__(chain)
        self._mesh = mesh
        self._hash: Any = None

    def result_hashes(self) -> tuple[int, ...]:
        """Return a hash of the last result of each rank of this process, computed on its device."""
        result = self.chain.result
        if self._hash is None:
            shape = jax.ShapeDtypeStruct(result.shape, result.dtype, sharding=result.sharding)
            spec = PartitionSpec(self._mesh.axis_names)
            self._hash = lower_over_mesh(self._mesh, hash_words, (shape,), spec).compile()
        shards = self._hash(result).addressable_shards
        return tuple(int(np.asarray(shard.data)[0]) for shard in shards)


def hash_words(values: jax.Array) -> jax.Array:
    """Return a hash of the flat array `values`: an array with a single number of 32 bits.

    The hash is the sum of all words (the bits of the elements), each mixed with its index, modulo
    2^32. The mixing is the finalizer of MurmurHash3 (Appleby, public domain). A change of a single
    word always changes the hash. A change of several words is missed once in 2^32 times.
    """
    size = values.dtype.itemsize
    words = jax.lax.bitcast_convert_type(values, jnp.dtype(f"uint{8 * size}")).astype(jnp.uint32)
    mixed = words ^ (jax.lax.iota(jnp.uint32, words.shape[0]) * jnp.uint32(0x9E3779B1))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> shift)) * jnp.uint32(factor)
    return jnp.sum(mixed, dtype=jnp.uint32).reshape(1)

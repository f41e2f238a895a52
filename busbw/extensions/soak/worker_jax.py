"""Programs of JAX for a soak: devices compute the hashes of their own results."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .worker_comparison import SoakProgram


class JaxSoakProgram(SoakProgram):
    """A program of JAX in a soak, whose devices compute the hashes of its results.

    So results need not be copied to the host, except the first result of each draw.
    """

    def hash_results(self) -> tuple[int, ...]:
        """Return a hash of the last result of each rank of this process.

        Each device computes the hash of its own result.
        """
        shards = self.program.result.addressable_shards
        # All devices begin before the host waits for the first hash.
        return tuple(map(int, [hash_words(shard.data) for shard in shards]))


@jax.jit
def hash_words(values: jax.Array) -> jax.Array:
    """Return a hash of 32 bits of the flat array `values`.

    A word is the bits of an element. Each word is mixed with its index, and the hash is the sum of
    the mixed words modulo 2^32. The mixing is the finalizer of MurmurHash3 (Appleby, in the public
    domain). A change of a single word always changes the hash. A change of several words is missed
    once in 2^32 times.
    """
    size = values.dtype.itemsize
    words = jax.lax.bitcast_convert_type(values, jnp.dtype(f"uint{8 * size}")).astype(jnp.uint32)
    mixed = words ^ (jax.lax.iota(jnp.uint32, words.shape[0]) * jnp.uint32(0x9E3779B1))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> shift)) * jnp.uint32(factor)
    return jnp.sum(mixed, dtype=jnp.uint32)

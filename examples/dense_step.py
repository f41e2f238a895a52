"""A data-parallel training step of one dense layer, whose gradient is summed over all devices.

Check which collectives it has, on a chip that you need not have, or measure them on your devices:

    python -m pytest perf/ --topology=v5e:2x4 --program=examples/dense_step.py:dense_step
    python -m pytest perf/ --program=examples/dense_step.py:dense_step --ranks=4
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

# The gradient has 512 x 512 values of 4 bytes: 1 MiB.
INPUTS, OUTPUTS, ROWS = 512, 512, 16
LEARNING_RATE = 0.05


def dense_step(devices):
    """Softmax cross-entropy and plain gradient descent, on `ROWS` rows for each device."""
    mesh = jax.make_mesh((len(devices),), ("data",), devices=devices)

    def loss(weights, rows, labels):
        log_chances = jax.nn.log_softmax(rows @ weights)
        return -jnp.mean(jnp.take_along_axis(log_chances, labels[:, None], axis=1))

    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P("data"), P("data")),
        out_specs=P(),
        check_vma=False,
    )
    def step(weights, rows, labels):
        gradient = jax.lax.psum(jax.grad(loss)(weights, rows, labels), "data")
        return weights - LEARNING_RATE / len(devices) * gradient

    count = ROWS * len(devices)
    whole, each = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    weights = jax.ShapeDtypeStruct((INPUTS, OUTPUTS), jnp.float32, sharding=whole)
    rows = jax.ShapeDtypeStruct((count, INPUTS), jnp.float32, sharding=each)
    labels = jax.ShapeDtypeStruct((count,), jnp.int32, sharding=each)
    return jax.jit(step, donate_argnums=0).lower(weights, rows, labels)

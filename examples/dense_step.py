"""A data-parallel training step of one dense layer, whose gradient is summed over all devices.

Check which collectives it has, on a chip that you need not have, or measure them on your devices:

    python -m pytest perf/ --topology=v5e:2x4 --program=examples/dense_step.py:dense_step
    python -m pytest perf/ --program=examples/dense_step.py:dense_step --ranks=4
"""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

LEARNING_RATE = 0.05


def dense_step(devices):
    """Return a step of softmax regression, on 16 rows for each device."""
    mesh = jax.make_mesh((len(devices),), ("data",), devices=devices)
    whole, divided = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    def loss(weights, rows, labels):
        log_chances = jax.nn.log_softmax(rows @ weights)
        return -jnp.mean(jnp.take_along_axis(log_chances, labels[:, None], axis=1))

    def step(weights, rows, labels):
        return weights - LEARNING_RATE * jax.grad(loss)(weights, rows, labels)

    # The gradient has 512 x 512 values of 4 bytes: 1 MiB.
    weights = jax.ShapeDtypeStruct((512, 512), jnp.float32)
    rows = jax.ShapeDtypeStruct((16 * len(devices), 512), jnp.float32)
    labels = jax.ShapeDtypeStruct((16 * len(devices),), jnp.int32)
    jitted = jax.jit(step, in_shardings=(whole, divided, divided), out_shardings=whole)
    return jitted, (weights, rows, labels)

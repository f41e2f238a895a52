"""A training step of two layers whose weights are sharded over all devices (FSDP, ZeRO-3).

Before a layer is computed its weights are gathered, and its gradient is summed and scattered:

    python -m pytest perf/ --topology=v5e:2x4 --program=examples/fsdp_step.py:fsdp_step
    python -m pytest perf/ --program=examples/fsdp_step.py:fsdp_step --ranks=4
"""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

# The weights of a layer have 1024 x 1024 values of 4 bytes: 4 MiB.
WIDTH, ROWS = 1024, 32
LEARNING_RATE = 0.01


def fsdp_step(devices):
    """Least squares and plain gradient descent, on `ROWS` rows for each device."""
    mesh = jax.make_mesh((len(devices),), ("data",), devices=devices)
    whole, sharded = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    def loss(weights, rows, targets):
        for layer in weights:
            rows = jax.nn.relu(rows @ jax.lax.with_sharding_constraint(layer, whole))
        return jnp.mean((rows - targets) ** 2)

    def step(weights, rows, targets):
        gradients = jax.grad(loss)(weights, rows, targets)
        return [layer - LEARNING_RATE * gradient for layer, gradient in zip(weights, gradients)]

    layer = jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32, sharding=sharded)
    rows = jax.ShapeDtypeStruct((ROWS * len(devices), WIDTH), jnp.float32, sharding=sharded)
    compiled_step = jax.jit(step, donate_argnums=0, out_shardings=[sharded, sharded])
    return compiled_step.lower([layer, layer], rows, rows)

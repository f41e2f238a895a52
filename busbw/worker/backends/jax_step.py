"""A training step as a JAX program: lowered here, for devices that are there or that are not.

The model, its gradient and the update, and nothing that times or reads what came out.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from busbw.workloads import LEARNING_RATE, Batch, Layer

from . import jax_versions


def lowered(step: Layer, mesh: jax.sharding.Mesh) -> Any:
    """``(weights, rows or key, labels) -> (new weights, each rank's loss)``, not compiled yet."""
    (axis,) = mesh.axis_names
    given = step.batch is Batch.GIVEN
    everywhere, each = PartitionSpec(), PartitionSpec(axis)
    mapped = jax_versions.shard_map(
        lambda *arguments: one_step(step, axis, *arguments),
        mesh=mesh,
        in_specs=(everywhere, each if given else everywhere, each),
        out_specs=(everywhere, each),
    )
    return jax.jit(mapped, donate_argnums=0, keep_unused=True).lower(*shapes(step, mesh))


def shapes(step: Layer, mesh: jax.sharding.Mesh) -> tuple[jax.ShapeDtypeStruct, ...]:
    """The arguments of all ranks together: weights, rows or the key to draw them, labels."""
    (axis,) = mesh.axis_names
    everywhere = NamedSharding(mesh, PartitionSpec())
    each = NamedSharding(mesh, PartitionSpec(axis))
    all_rows, dtype = step.rows * step.ranks, jnp.dtype(step.dtype)
    weights = jax.ShapeDtypeStruct((step.inputs, step.outputs), dtype, sharding=everywhere)
    rows = (
        jax.ShapeDtypeStruct((all_rows, step.inputs), dtype, sharding=each)
        if step.batch is Batch.GIVEN
        else jax.ShapeDtypeStruct((2,), jnp.uint32, sharding=everywhere)
    )
    return weights, rows, jax.ShapeDtypeStruct((all_rows,), jnp.int32, sharding=each)


def one_step(step: Layer, axis: str, weights: Any, rows: Any, labels: Any) -> tuple[Any, Any]:
    """One rank's part. Its loss stays its own: the gradient's all-reduce is the only collective."""
    if step.batch is Batch.DRAWN:
        rows = _drawn(step, axis, rows)
    # Typed as if they differed between ranks, so that each rank's gradient is its own.
    own = jax_versions.varying(weights, (axis,))
    loss, gradient = jax.value_and_grad(_loss)(own, rows, labels)
    mean = jax.lax.psum(gradient, axis) / step.ranks
    return weights - LEARNING_RATE * mean, loss[None]


def _loss(weights: Any, rows: Any, labels: Any) -> Any:
    """Softmax cross-entropy, the mean over a rank's rows."""
    chances = jax.nn.log_softmax(rows @ weights)
    return -jnp.mean(jnp.take_along_axis(chances, labels[:, None], axis=1))


def _drawn(step: Layer, axis: str, key: Any) -> Any:
    """Rows of the normal distribution, others on every rank."""
    own = jax.random.fold_in(
        jax.random.wrap_key_data(key, impl="threefry2x32"), jax.lax.axis_index(axis)
    )
    return jax.random.normal(own, (step.rows, step.inputs), jnp.dtype(step.dtype))

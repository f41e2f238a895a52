"""A training step in JAX: a chain of them to measure, and for a topology a single one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.model.case import Case
from busbw.model.launch import Proof
from busbw.workloads.dense_step import LEARNING_RATE, Batch, Layer, layer_of

from ..hlo import proof
from ..values import MOST_STEPS, PERIOD, StepValues
from . import versions
from .program import EVERYWHERE, Work, asked_shape, chain, lowered_over, placed


def work_of(case: Case, mesh: Mesh, *, virtual: bool) -> Work:
    """Steps of the dense layer: weights are given up to a call, and come out of it."""
    layer = layer_of(case)
    reference = StepValues(layer, virtual=virtual)
    weights, rows, labels = shapes(layer, mesh)
    return Work(
        values=reference,
        step=1,
        most_iterations=MOST_STEPS,
        lowered=partial(_lowered_chain, layer, mesh),
        proved=lambda text, *, delayed: prove(text, case),
        shapes=[weights],
        start=None if virtual else _start(reference, weights),
        batch=(placed(reference.rows, rows.sharding), placed(reference.labels, labels.sharding)),
    )


def host_bytes(case: Case) -> int:
    """On each rank weights, gradient and sum; the first weights; rows, made and laid out."""
    layer = layer_of(case)
    rows = layer.ranks * layer.rows * layer.inputs * np.dtype(case.dtype).itemsize
    return (3 * case.ranks + 1) * case.payload_bytes + 3 * rows


def prove(text: str, case: Case) -> Proof:
    """What a step holds: the all-reduce of the gradient, over all ranks, and no other collective.

    A step computes, so that it may read and write arrays of the payload's size; only copies are
    counted. Raises MeasuringError NOT_A_COLLECTIVE with the offending text.
    """
    return proof.prove(text, proof.Wanted(case=case, per_round=1, strict=False, computes=True))


def lowered(step: Layer, mesh: Mesh) -> Any:
    """``(weights, rows or key, labels) -> (new weights, each rank's loss)``, not compiled yet."""
    (axis,) = mesh.axis_names
    own, out_specs = partial(one_step, step, axis), (EVERYWHERE, PartitionSpec(axis))
    return lowered_over(mesh, own, shapes(step, mesh), out_specs, donated=(0,))


def shapes(step: Layer, mesh: Mesh) -> tuple[jax.ShapeDtypeStruct, ...]:
    (axis,) = mesh.axis_names
    everywhere = NamedSharding(mesh, EVERYWHERE)
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
    own = versions.varying(weights, (axis,))
    loss, gradient = jax.value_and_grad(_loss)(own, rows, labels)
    mean = jax.lax.psum(gradient, axis) / step.ranks
    return weights - LEARNING_RATE * mean, loss[None]


def _loss(weights: Any, rows: Any, labels: Any) -> Any:
    chances = jax.nn.log_softmax(rows @ weights)
    return -jnp.mean(jnp.take_along_axis(chances, labels[:, None], axis=1))


def _drawn(step: Layer, axis: str, key: Any) -> Any:
    own = jax.random.fold_in(
        jax.random.wrap_key_data(key, impl="threefry2x32"), jax.lax.axis_index(axis)
    )
    return jax.random.normal(own, (step.rows, step.inputs), jnp.dtype(step.dtype))


def _lowered_chain(layer: Layer, mesh: Mesh, *, delayed: bool) -> Any:
    """``(asked, weights, rows, labels) -> (steps counted, new weights)``, not compiled yet."""
    (axis,) = mesh.axis_names

    def steps(asked: Any, weights: Any, rows: Any, labels: Any) -> Any:
        def one(_: int, weights: Any) -> tuple[Any, ...]:
            return one_step(layer, axis, weights, rows, labels)[:1]

        return chain(one, asked, weights, delayed=delayed)

    arguments = [asked_shape(mesh, delayed=delayed), *shapes(layer, mesh)]
    return lowered_over(mesh, steps, arguments, (EVERYWHERE, EVERYWHERE), donated=(1,))


def _start(reference: StepValues, weights: jax.ShapeDtypeStruct) -> Callable[..., Any]:
    """``(number, weights) -> (weights,)`` that repeat that draw's rows, in the same buffers."""
    starts = [reference.start(number) for number in range(reference.draws)]
    draws = [placed(one, weights.sharding) for one in starts]
    inputs = weights.shape[0]
    repeats = -(-inputs // PERIOD)

    def tiled(own: jax.Array, held: jax.Array) -> tuple[jax.Array]:
        return (jnp.tile(own, (repeats, 1))[:inputs],)

    jitted = jax.jit(tiled, donate_argnums=1, keep_unused=True, out_shardings=(weights.sharding,))
    compiled = jitted.lower(draws[0], weights).compile()
    return lambda number, held: compiled(draws[number], held)

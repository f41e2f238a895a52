"""A training step in JAX as something to measure: a chain of steps in one program, proved, checked.

What a step is stands in `jax_step`, how a chain is timed in `busbw.worker.sampling`.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from busbw.model import Case, FailureKind, Proof
from busbw.workloads import LEARNING_RATE, Layer, layer_of

from . import hlo_chosen, hlo_proof, jax_lowering, jax_step, jax_versions
from .base import AbstractProgram, MeasuringError
from .jax_anchor import Anchor
from .jax_beside import NOTHING, Beside, work
from .step_values import (
    DRAWS,
    LOOSE,
    LOOSE_ON_ACCELERATORS,
    MOST_STEPS,
    PERIOD,
    StepValues,
    check_same,
)

_EVERYWHERE = PartitionSpec()


class JaxStepProgram(AbstractProgram):
    """Steps of the dense layer of `case`: weights are given up to a call, and come out of it."""

    step = 1
    most_iterations = MOST_STEPS

    def __init__(
        self, case: Case, mesh: jax.sharding.Mesh, *, virtual: bool, beside: Beside = NOTHING
    ) -> None:
        self._case, self._mesh = case, mesh
        if beside.part:
            raise MeasuringError(
                FailureKind.UNAVAILABLE, "a second collective is for all-reduces, not for steps"
            )
        self._training = layer_of(case)
        self._copied = NamedSharding(mesh, _EVERYWHERE)
        self._peak_before_bytes = self._peak_bytes()
        begun_s = time.perf_counter()
        self._call = _lowered(self._training, mesh, beside).compile()
        self.compile_s = time.perf_counter() - begun_s
        self.compiled_memory_bytes = jax_lowering.memory_bytes(self._call)
        self.proof = prove(self._call.as_text(), case)
        loose = LOOSE if virtual else LOOSE_ON_ACCELERATORS
        self._values = StepValues(self._training, rate=LEARNING_RATE, loose=loose)
        weights, rows, labels = jax_step.shapes(self._training, mesh)
        self._batch: tuple[Any, ...] = (
            jax.device_put(self._values.rows, rows.sharding),
            jax.device_put(self._values.labels, labels.sharding),
        )
        starts = [self._values.start(number) for number in range(DRAWS)]
        self._starts = [jax.device_put(one, self._copied) for one in starts]
        self._start = _compiled_start(self._starts[0], weights)
        self._draw = -1
        self._weights: Any = None
        self._counted: Any = None
        self._anchor: Anchor | None = None

    def release(self) -> None:
        """Let go of weights and rows."""
        self._weights = None
        self._batch = ()

    def fresh(self) -> None:
        """The next draw of starting weights on every rank, in their buffers once they are there."""
        self._draw = (self._draw + 1) % DRAWS
        if self._weights is None:
            shape = (self._training.inputs, self._training.outputs)
            self._weights = jax.device_put(np.zeros(shape, np.float32), self._copied)
        self._weights = self._start(self._starts[self._draw], self._weights)
        jax.block_until_ready(self._weights)

    def run(self, iterations: int) -> None:
        """`iterations` steps in one call, and wait for it."""
        turns = jax.device_put(np.int32(iterations), self._copied)
        self._counted, self._weights = self._call(turns, self._weights, *self._batch)
        jax.block_until_ready(self._weights)

    def check(self, iterations: int) -> int:
        """The steps that the program counted; all weights against the reference's.

        Every rank's are compared with the first one's bit for bit, and these with the reference.
        """
        if int(self._counted) != iterations:
            raise MeasuringError(
                FailureKind.WRONG_RESULT,
                f"the program ran {int(self._counted)} steps, expected {iterations}",
            )
        shards = {shard.device.id: shard.data for shard in self._weights.addressable_shards}
        if len(shards) != self._case.ranks:
            raise MeasuringError(
                FailureKind.WRONG_WORLD,
                f"the weights lie on {len(shards)} devices, expected {self._case.ranks}",
            )
        first, *others = [np.asarray(shards[device]) for device in sorted(shards)]
        for rank, weights in enumerate(others, start=1):
            check_same(rank, first, weights)
        self._values.check(self._draw, iterations, first)
        return self._case.ranks * first.size

    def anchor(self, passes: int) -> None:
        """In place in the weights."""
        self._anchor = self._anchor or Anchor(self._mesh, self._weights, copied=True)
        held, self._weights = self._weights, None
        self._weights = self._anchor.run(passes, held)

    def device_peak_bytes(self) -> int | None:
        """The highest use of any device, if this program raised it: JAX cannot start anew."""
        peak_bytes = self._peak_bytes()
        return peak_bytes if peak_bytes > self._peak_before_bytes else None

    def _peak_bytes(self) -> int:
        counts = [device.memory_stats() or {} for device in self._mesh.devices.flat]
        return max(int(count.get("peak_bytes_in_use", 0)) for count in counts)


def step_memory_bytes(case: Case) -> int:
    """On each rank weights, gradient and sum; the first weights; rows, made and laid out."""
    training = layer_of(case)
    rows = training.ranks * training.rows * training.inputs * np.dtype(case.dtype).itemsize
    return (3 * case.ranks + 1) * case.payload_bytes + 3 * rows


def prove(text: str, case: Case) -> Proof:
    """What a step holds: the all-reduce of the gradient, over all ranks, and no other collective.

    A step computes, so that what else goes over arrays of the payload's size is no offence; only
    copies are counted. Raises MeasuringError NOT_A_COLLECTIVE with the offending text.
    """
    wanted = hlo_proof.Wanted(case=case, per_round=1, strict=False)
    found = hlo_proof.find(text, wanted)
    return Proof(
        collectives=dict(Counter(one.collective for one in found.collectives)),
        payload_copies=sum(one.op == "copy" for one in found.beside),
        copies_per_call=sum(one.op == "copy" for one in found.once),
        algorithm=case.strategy,
        chosen=hlo_chosen.algorithm_of(found.collectives),
        array_bytes=wanted.result_bytes,
        groups=case.groups,
    )


def _lowered(training: Layer, mesh: jax.sharding.Mesh, beside: Beside) -> Any:
    """``(turns, weights, rows, labels) -> (steps counted, new weights)``, not compiled yet."""
    (axis,) = mesh.axis_names
    each = PartitionSpec(axis)

    def chain(turns: Any, weights: Any, rows: Any, labels: Any) -> Any:
        def turn(held: Any) -> Any:
            count, weights = held
            weights, _ = jax_step.one_step(training, axis, weights, rows, labels)
            return count + 1 + work(beside, (axis,), count, weights), weights

        start = (jnp.zeros_like(turns), weights)
        return jax.lax.while_loop(lambda held: held[0] < turns, turn, start)

    mapped = jax_versions.shard_map(
        chain,
        mesh=mesh,
        in_specs=(_EVERYWHERE, _EVERYWHERE, each, each),
        out_specs=(_EVERYWHERE, _EVERYWHERE),
    )
    turns = jax.ShapeDtypeStruct((), np.int32, sharding=NamedSharding(mesh, _EVERYWHERE))
    return jax.jit(mapped, donate_argnums=1).lower(turns, *jax_step.shapes(training, mesh))


def _compiled_start(start: jax.Array, weights: jax.ShapeDtypeStruct) -> Any:
    """``(first rows, weights) -> weights`` that repeat those rows, in the same buffers."""
    inputs = weights.shape[0]
    repeats = -(-inputs // PERIOD)

    def tiled(own: jax.Array, held: jax.Array) -> jax.Array:
        return jnp.tile(own, (repeats, 1))[:inputs]

    jitted = jax.jit(tiled, donate_argnums=1, keep_unused=True, out_shardings=weights.sharding)
    return jitted.lower(start, weights).compile()

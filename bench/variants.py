"""The all-reduce between what stands around it in a training step, added piece by piece.

The bare chain and the whole step are busbw's own programs. Between them lie loops with one
all-reduce in each round: of an operand that has just been written, and with the step's reading and
writing between. Each can be recorded as busbw's programs are; nothing is timed here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.model.case import Case
from busbw.model.words import FailureKind
from busbw.worker.backends.base import AbstractBackend, AbstractProgram, MeasuringError
from busbw.worker.backends.jax import dense_step, versions
from busbw.worker.backends.jax.backend import mesh_of
from busbw.workloads.dense_step import DenseStep, layer_of

_ALL = PartitionSpec()


# What stands around the all-reduce: an operand that has just been written; as much reading and
# writing as in a step; an operand that is a product, as a step's gradient is. XLA's CPU client does
# products on its pool's threads and goes on there with what waits for them, so that an all-reduce
# that waits for others may keep a thread from them.
PIECES = (FRESH, TOUCHED, PRODUCT) = ("fresh", "touched", "product")


class AroundProgram(AbstractProgram):
    """A loop of rounds, in each an operand written from another array, and its all-reduce."""

    step = 1
    most_iterations = 256

    def __init__(self, case: Case, mesh: Mesh, piece: str) -> None:
        self._ranks = case.ranks
        self._copied = NamedSharding(mesh, _ALL)
        (axis,) = mesh.axis_names
        each = PartitionSpec(axis)
        step = layer_of(replace(case, workload=DenseStep()))
        # What is summed is the round's number, also as a product with the rows.
        values = np.zeros((case.ranks * step.inputs, step.outputs), np.float32)
        rows = np.full((case.ranks * step.rows, step.inputs), 1 / step.rows, np.float32)
        self._values, self._rows = jax.device_put((values, rows), NamedSharding(mesh, each))
        mapped = versions.shard_map(
            partial(_rounds, piece, axis),
            mesh=mesh,
            in_specs=(_ALL, each, each),
            out_specs=(_ALL, each, each),
        )
        turns = jax.ShapeDtypeStruct((), np.int32, sharding=self._copied)
        begun_s = time.perf_counter()
        jitted = jax.jit(mapped, donate_argnums=1)
        self._call: Any = jitted.lower(turns, self._values, self._rows).compile()
        self.compile_s = time.perf_counter() - begun_s
        self.proof = dense_step.prove(str(self._call.as_text()), case)
        self._counted: Any = None
        self._last: Any = None

    def fresh(self) -> None:
        """The values never change: there is nothing to lay out."""

    def run(self, iterations: int) -> None:
        """`iterations` rounds in one call, and wait for it."""
        turns = jax.device_put(np.int32(iterations), self._copied)
        self._counted, self._values, self._last = self._call(turns, self._values, self._rows)
        jax.block_until_ready((self._counted, self._values, self._last))

    def check(self, iterations: int) -> int:
        """The rounds that the program counted, and the last sum on every rank."""
        sums = np.asarray(self._last)
        if int(self._counted) != iterations or not np.all(sums == self._ranks * iterations):
            raise MeasuringError(
                FailureKind.WRONG_RESULT,
                f"{int(self._counted)} rounds and sums {sums}, expected {iterations} rounds",
            )
        return int(sums.size)

    def device_peak_bytes(self) -> int | None:
        """Nobody asks."""
        return None


def _rounds(piece: str, axis: str, turns: Any, values: Any, rows: Any) -> tuple[Any, ...]:
    """``(rounds counted, values, last sum)``, one rank's part."""

    def one(held: tuple[Any, ...]) -> tuple[Any, ...]:
        count, values, _ = held
        number = versions.varying(count + 1, (axis,))
        if piece != FRESH:
            # As the forward pass reads rows and weights.
            number = number + ((jnp.min(rows) < 0) | (jnp.min(values) < 0)).astype(number.dtype)
        number = number.astype(values.dtype)
        # An array of the payload's size, the round's number everywhere.
        operand = values + number
        if piece == PRODUCT:
            operand = rows.T @ jnp.full((rows.shape[0], values.shape[1]), number)
        total = jax.lax.psum(operand, axis)
        if piece != FRESH:
            # As the update reads weights and sum, and writes weights; sums are above 0.
            values = jnp.maximum(values, -total)
        return count + 1, values, versions.varying(total[0, :1], (axis,))

    first = versions.varying(jnp.zeros(1, values.dtype), (axis,))
    start = (jnp.zeros_like(turns), values, first)
    held: tuple[Any, ...] = jax.lax.while_loop(lambda held: held[0] < turns, one, start)
    return held


@contextlib.contextmanager
def variants(
    backend: AbstractBackend, case: Case
) -> Iterator[Mapping[str, tuple[Case, AbstractProgram]]]:
    """Every variant by its name, compiled and proved, with the case that it stands for."""
    mesh = mesh_of(case, jax.devices("cpu"))
    whole = replace(case, workload=DenseStep())
    with contextlib.ExitStack() as stack:
        yield {
            "bare": (case, stack.enter_context(backend.prepared(case))),
            **{name: (case, AroundProgram(case, mesh, name)) for name in PIECES},
            "step": (whole, stack.enter_context(backend.prepared(whole))),
        }

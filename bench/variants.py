"""The all-reduce between what stands around it in a training step, added piece by piece.

The bare chain and the whole step are busbw's own programs. Between them lie loops with one
all-reduce in each round: of an operand that has just been written, with the step's reading and
writing between, with a rank that comes late. Each can be recorded as busbw's programs are; nothing
is timed here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.model import Case, Extra, FailureKind, Injection
from busbw.worker.backends.base import AbstractBackend, AbstractProgram, MeasuringError
from busbw.worker.backends.jax import dense_step, injection, versions
from busbw.worker.backends.jax.backend import mesh_of
from busbw.worker.backends.jax.collective import CollectiveProgram
from busbw.workloads import DenseStep, layer_of

BARE, FRESH, TOUCHED, PRODUCT = "bare", "fresh", "touched", "product"
BUSY, IDLE, STEP = "busy", "idle", "step"
# How much later one rank comes, in the all-reduce's own time.
LATE = 2.0

_ALL = PartitionSpec()


@dataclass(frozen=True, kw_only=True)
class Around:
    """What stands around the all-reduce: on all ranks `touched`, on the first one a delay.

    With a `product` the operand is one, as a step's gradient is, instead of an array copied. XLA's
    CPU client does products on its pool's threads and goes on there with what waits for them, so
    that an all-reduce that waits for others may keep a thread from them. `busy` are steps of a
    loop that computes, `idle_s` seconds in which nothing runs.
    """

    touched: bool = False
    product: bool = False
    busy: int = 0
    idle_s: float = 0.0


class AroundProgram(AbstractProgram):
    """A loop of rounds, in each an operand written from another array, and its all-reduce."""

    step = 1
    most_iterations = 256

    def __init__(self, case: Case, mesh: Mesh, around: Around) -> None:
        self._ranks = case.ranks
        self._copied = NamedSharding(mesh, _ALL)
        (axis,) = mesh.axis_names
        each = PartitionSpec(axis)
        self._each = NamedSharding(mesh, each)
        step = layer_of(replace(case, workload=DenseStep()))
        # What is summed is the round's number, also as a product with the rows.
        self._values, self._rows = (
            jax.device_put(np.full((ranks * first, second), value, np.float32), self._each)
            for ranks, first, second, value in (
                (case.ranks, step.inputs, step.outputs, 0.0),
                (case.ranks, step.rows, step.inputs, 1 / step.rows),
            )
        )
        mapped = versions.shard_map(
            partial(_rounds, around, axis),
            mesh=mesh,
            in_specs=(_ALL, each, each),
            out_specs=(_ALL, each, each),
        )
        turns = jax.ShapeDtypeStruct((), np.int32, sharding=self._copied)
        begun_s = time.perf_counter()
        jitted = jax.jit(mapped, donate_argnums=1)
        compiled: Any = jitted.lower(turns, self._values, self._rows).compile()
        self._call = compiled
        self.compile_s = time.perf_counter() - begun_s
        self.proof = dense_step.prove(compiled.as_text(), case)
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


def _rounds(around: Around, axis: str, turns: Any, values: Any, rows: Any) -> tuple[Any, ...]:
    """``(rounds counted, values, last sum)``, one rank's part."""

    def one(held: tuple[Any, ...]) -> tuple[Any, ...]:
        count, values, _ = held
        number = versions.varying(count + 1, (axis,))
        if around.touched:
            # As the forward pass reads rows and weights.
            number = number + ((jnp.min(rows) < 0) | (jnp.min(values) < 0)).astype(number.dtype)
        number = number + _late(around, axis, number)
        total = jax.lax.psum(_operand(around, values, rows, number.astype(values.dtype)), axis)
        if around.touched:
            # As the update reads weights and sum, and writes weights; sums are above 0.
            values = jnp.maximum(values, -total)
        return count + 1, values, versions.varying(total[0, :1], (axis,))

    first = versions.varying(jnp.zeros(1, values.dtype), (axis,))
    start = (jnp.zeros_like(turns), values, first)
    held: tuple[Any, ...] = jax.lax.while_loop(lambda held: held[0] < turns, one, start)
    return held


def _operand(around: Around, values: Any, rows: Any, number: Any) -> Any:
    """An array of the payload's size, `number` everywhere, just written."""
    if not around.product:
        return values + number
    return rows.T @ jnp.full((rows.shape[0], values.shape[1]), number)


def _late(around: Around, axis: str, number: Any) -> Any:
    """0, on the first rank after its delay."""
    if not around.busy and not around.idle_s:
        return 0

    def delayed(number: Any) -> Any:
        if around.busy:
            return injection.busy(number, around.busy)
        shape = jax.ShapeDtypeStruct(number.shape, number.dtype)
        slept = jax.pure_callback(partial(_slept, around.idle_s), shape, number)
        return versions.varying(slept, (axis,))

    return jax.lax.cond(jax.lax.axis_index(axis) == 0, delayed, jnp.zeros_like, number)


def _slept(seconds: float, number: Any) -> Any:
    time.sleep(seconds)
    return np.zeros_like(number)


Variants = Mapping[str, tuple[Case, AbstractProgram]]


@contextlib.contextmanager
def variants(
    backend: AbstractBackend, case: Case, time_s: Callable[[AbstractProgram], float]
) -> Iterator[Variants]:
    """Every variant of `case` by its name, compiled and proved, with the case that it stands for.

    `time_s` says how long the all-reduce of a program takes: of the bare one, before a rank is
    made late by that.
    """
    mesh = mesh_of(case, jax.devices("cpu"))
    whole = replace(case, workload=DenseStep())
    with contextlib.ExitStack() as stack:
        bare = stack.enter_context(backend.prepared(case))
        late_s = LATE * time_s(bare)
        delay = Injection(extra=Extra.DELAY, seconds=late_s)
        delayed = CollectiveProgram(case, mesh, virtual=True, delayed=True)
        injection.calibrate(delayed, delay, case.payload_bytes)
        delayed.release()
        arounds = {
            FRESH: Around(),
            TOUCHED: Around(touched=True),
            PRODUCT: Around(touched=True, product=True),
            BUSY: Around(busy=delayed.delay_steps or 0),
            IDLE: Around(idle_s=late_s),
        }
        programs: dict[str, tuple[Case, AbstractProgram]] = {BARE: (case, bare)}
        for name, around in arounds.items():
            programs[name] = (case, AroundProgram(case, mesh, around))
        programs[STEP] = (whole, stack.enter_context(backend.prepared(whole)))
        yield programs

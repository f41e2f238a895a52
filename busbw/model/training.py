"""A training step: one dense layer, data parallel, with the all-reduce of its gradient inside.

Values only. What a framework makes of it is in `busbw.worker.backends`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .identity import Protocol
from .request import Case
from .words import Clock, payload_text

DENSE = "dense"

# The dense step that is measured has so many classes, and so many rows on each rank.
DENSE_OUTPUTS = 512
DENSE_ROWS = 16

# Plain gradient descent moves the weights by so much of the mean gradient.
LEARNING_RATE = 0.05

_ITEM_BYTES = {"float32": 4, "bfloat16": 2}


class Batch(str, enum.Enum):
    """Where a rank's rows come from.

    `given`: an argument of the step, as from an input pipeline. `drawn`: random numbers, made
    within the step.
    """

    GIVEN = "given"
    DRAWN = "drawn"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingStep:
    """One step of plain gradient descent on a dense layer without bias, softmax cross-entropy.

    Weights are `inputs` x `outputs`, the same on every rank, and given up to the step (donated).
    Each of `ranks` has `rows` rows of its own; the gradients are summed over all ranks.
    """

    inputs: int
    outputs: int
    rows: int
    ranks: int
    batch: Batch = Batch.GIVEN
    dtype: str = "float32"
    framework: str = "jax"

    @property
    def payload_bytes(self) -> int:
        """Bytes of the weights, and of the gradient that is all-reduced."""
        return self.inputs * self.outputs * _ITEM_BYTES[self.dtype]

    @property
    def name(self) -> str:
        """The step in one word, such as ``jax.step.given.128.float32.4M``."""
        parts = (self.framework, "step", self.batch.value, str(self.rows), self.dtype)
        return ".".join((*parts, payload_text(self.payload_bytes)))

    @property
    def all_reduce(self) -> Case:
        """The all-reduce that a step must hold, once, to be one."""
        return Case(
            framework=self.framework,
            payload_bytes=self.payload_bytes,
            collective="all_reduce",
            strategy="psum",
            dtype=self.dtype,
            reduce_op="sum",
            ranks=self.ranks,
            mesh="",
            placement="in_place",
            protocol=Protocol(clock=Clock.DISPATCH, program="step"),
        )


def row_bytes(dtype: str) -> int:
    """Bytes of the weights of one input of the dense step: its payloads are multiples of that."""
    return DENSE_OUTPUTS * _ITEM_BYTES[dtype]


def dense_step(case: Case) -> TrainingStep:
    """The step that is timed for `case`: so many inputs that its gradient is the payload."""
    return TrainingStep(
        inputs=case.payload_bytes // row_bytes(case.dtype),
        outputs=DENSE_OUTPUTS,
        rows=DENSE_ROWS,
        ranks=case.ranks,
        dtype=case.dtype,
        framework=case.framework,
    )

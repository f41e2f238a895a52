"""A training step: one dense layer, data parallel, with the all-reduce of its gradient inside.

Each framework's program is in its back end. What all training steps share is here, too: sums in
place of float32, timed by the host.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from busbw.collectives.base import DTYPES
from busbw.model.case import Asked, Case, GridError, Spec
from busbw.model.machine import DeviceSet, EnvironmentKey
from busbw.model.words import MIB, Clock, payload_text
from busbw.model.workload import Workload

from .collective import case_with

# Default gradients: computing takes long where they are large.
STEP_PAYLOADS = (1 * MIB, 4 * MIB, 16 * MIB)


def check_sums_in_place(kind: str, asked: Asked) -> None:
    """Raise GridError for another collective, clock or axes than a step has."""
    for what, given, accepted in (
        ("collective", asked.collectives, ("all_reduce",)),
        ("reduce op", asked.reduce_ops, ("sum",)),
        ("placement", asked.placements, ("default", "in_place")),
        ("dtype", asked.dtypes, ("float32",)),
        ("clock", (asked.clock,), ("default", "host")),
        ("axes", (asked.axes,), ("",)),
    ):
        for word in given:
            if word not in accepted:
                known = " or ".join(accepted) if any(accepted) else "none"
                raise GridError(f"a {kind} training step has no {what} {word}; it has {known}")


# Plain gradient descent moves the weights by so much of the mean gradient.
LEARNING_RATE = 0.05


class Batch(enum.StrEnum):
    """Where a rank's rows come from.

    `given`: an argument of the step, as from an input pipeline. `drawn`: random numbers, made
    within the step.
    """

    GIVEN = "given"
    DRAWN = "drawn"


@dataclass(frozen=True, kw_only=True)
class DenseStep(Workload):
    """One step of plain gradient descent on a dense layer without bias, softmax cross-entropy.

    Weights are the same on every rank, and donated to the step. Each rank has its own `rows` rows,
    for `outputs` classes; the gradients are summed over all ranks, and have so many inputs that
    they are the payload. With the clock `dispatch` a step is a separate program that also gives
    the loss; with the host's, steps are a chain in one program.
    """

    outputs: int = 512
    rows: int = 16
    batch: Batch = Batch.GIVEN

    kind = "dense"

    @classmethod
    def check(cls, asked: Asked) -> None:
        check_sums_in_place(cls.kind, asked)
        for size in asked.payloads:
            if size % cls.row_bytes():
                raise GridError(
                    f"a gradient of {payload_text(size)} is no multiple of "
                    f"{payload_text(cls.row_bytes())}, the weights of one input"
                )

    @classmethod
    def row_bytes(cls) -> int:
        """Bytes of the weights of one input: payloads are multiples of that."""
        return cls.outputs * DTYPES["float32"].size_bytes

    def case_on(self, spec: Spec, key: EnvironmentKey, found: DeviceSet, only: str) -> Case:
        """What a step costs is what the host waits for; the device's clock knows collectives."""
        program = f"{self.kind}-step-{self.rows}-rows"
        return case_with(spec, key, found, only, Clock.HOST, program)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """The layer of a case: weights are `inputs` x `outputs`, each of `ranks` has `rows` rows."""

    inputs: int
    outputs: int
    rows: int
    ranks: int
    batch: Batch = Batch.GIVEN
    dtype: str = "float32"


def layer_of(case: Case) -> Layer:
    """The layer whose gradient is the payload. Raises TypeError for another workload."""
    step = case.workload
    if not isinstance(step, DenseStep):
        raise TypeError(f"{case.name} is no dense step")
    return Layer(
        inputs=case.payload_bytes // (step.outputs * DTYPES[case.dtype].size_bytes),
        outputs=step.outputs,
        rows=step.rows,
        ranks=case.ranks,
        batch=step.batch,
        dtype=case.dtype,
    )

"""A training step in TensorFlow as something to measure: a chain of steps, proved and checked.

What a step is stands in `tensorflow_step`, how a chain is timed in `busbw.worker.sampling`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import tensorflow as tf

from busbw.model import Case, FailureKind
from busbw.workloads import LEARNING_RATE, layer_of

from . import tensorflow_proof, tensorflow_step
from .base import AbstractProgram, MeasuringError
from .step_values import (
    DRAWS,
    LOOSE,
    LOOSE_ON_ACCELERATORS,
    MOST_STEPS,
    PERIOD,
    StepValues,
    check_same,
)
from .tensorflow_anchor import Anchor
from .tensorflow_replicas import Replicas


class TensorflowStepProgram(AbstractProgram):
    """Steps of the dense layer of `case`: each replica's weights go from one step to the next.

    As in a chain of collectives, arguments are handed to their devices only if there is a step.
    """

    step = 1
    shortest = 1
    most_iterations = MOST_STEPS

    def __init__(self, case: Case, strategy: Any, *, virtual: bool) -> None:
        self._case = case
        self._replicas = Replicas(strategy, case.ranks)
        self._training = layer_of(case)
        loose = LOOSE if virtual else LOOSE_ON_ACCELERATORS
        self._values = StepValues(self._training, rate=LEARNING_RATE, loose=loose)
        self._replicas.begin_peak()
        self._rows = self._replicas.laid_out(lambda rank: self._part(self._values.rows, rank))
        self._labels = self._replicas.laid_out(lambda rank: self._part(self._values.labels, rank))
        self._draw = -1
        self._start: Any = None
        self._weights: Any = None
        self._counted: Any = None
        self._anchor: Anchor | None = None
        self.fresh()
        begun_s = time.perf_counter()
        self._call = tf.function(self._chain, autograph=False).get_concrete_function(
            self._start, self._rows, self._labels, tf.constant(1)
        )
        executed = tensorflow_proof.executed_graphs(lambda: self.run(0))
        self.compile_s = time.perf_counter() - begun_s
        self.proof = tensorflow_proof.prove(case, executed, self._call.graph)

    def release(self) -> None:
        """Let go of weights, rows and of the graph."""
        self._start = self._weights = self._anchor = self._rows = self._labels = None
        del self._call

    def fresh(self) -> None:
        """The next draw of starting weights; those that came out are let go of first."""
        self._draw = (self._draw + 1) % DRAWS
        self._start = self._weights = None
        self._start = self._replicas.laid_out(self._weights_of_rank)

    def _weights_of_rank(self, rank: int) -> Any:
        inputs = self._training.inputs
        found = tf.tile(tf.constant(self._values.start(self._draw)), [-(-inputs // PERIOD), 1])
        return found if found.shape[0] == inputs else found[:inputs]

    def _part(self, values: Any, rank: int) -> Any:
        """A rank's part of what all ranks' rows have."""
        count = self._training.rows
        return tf.constant(values[rank * count : (rank + 1) * count])

    def _chain(self, weights: Any, rows: Any, labels: Any, turns: Any) -> tuple[Any, Any]:
        def one(held: Any) -> Any:
            return self._replicas.run(tensorflow_step.one_step, held, rows, labels)

        return self._replicas.chained(one, turns, weights)

    def run(self, iterations: int) -> None:
        """`iterations` steps in one call, and wait for it; always from the starting weights.

        From those that came out another graph would run: TensorFlow counts them to one device.
        """
        self._weights = None
        self._counted, self._weights = self._call(
            self._start, self._rows, self._labels, tf.constant(iterations)
        )
        self._replicas.wait(self._weights)

    def check(self, iterations: int) -> int:
        """The steps that the program counted; all weights against the reference's.

        Every rank's are compared with the first one's bit for bit, and these with the reference.
        """
        if int(self._counted) != iterations:
            raise MeasuringError(
                FailureKind.WRONG_RESULT,
                f"the program ran {int(self._counted)} steps, expected {iterations}",
            )
        first, *others = map(np.asarray, self._replicas.readable(self._weights))
        for rank, weights in enumerate(others, start=1):
            check_same(rank, first, weights)
        self._values.check(self._draw, iterations, first)
        return self._case.ranks * int(first.size)

    def anchor(self, passes: int) -> None:
        """From the starting weights each time; the memory is that of those that came out."""
        self._weights = None
        self._anchor = self._anchor or Anchor(self._replicas, self._start)
        self._anchor.run(passes, self._start)

    def device_peak_bytes(self) -> int | None:
        """The highest use of any GPU since this program was made."""
        return self._replicas.peak_bytes()


def step_memory_bytes(case: Case) -> int:
    """Peak host memory, as measured at 16M to 256M on 2, 4 and 8 ranks.

    On each rank the first weights, those of the step and its gradient; a ring's sum of them, and
    the more ranks share the cores the more of them have new weights while others still sum. The
    other strategies have sums that all ranks share. The rows, made and laid out.
    """
    ring = case.strategy == "ring"
    buffers = min(5.0, 3.8 + case.ranks / 10) if ring else 3 + 2 / case.ranks
    training = layer_of(case)
    rows = training.rows * training.inputs * np.dtype(case.dtype).itemsize
    return case.ranks * (int(buffers * case.payload_bytes) + 2 * rows)

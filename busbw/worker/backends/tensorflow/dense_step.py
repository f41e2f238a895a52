"""A training step in TensorFlow: what one replica does, and a chain of steps to measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from busbw.model.case import Case
from busbw.workloads.dense_step import LEARNING_RATE, layer_of

from ..values import MOST_STEPS, PERIOD, StepValues
from . import layers
from .program import TensorflowProgram, summed


class DenseStepProgram(TensorflowProgram):
    """Steps of the dense layer of `case`: each replica's weights go from one step to the next."""

    most_iterations = MOST_STEPS

    def __init__(self, case: Case, strategy: Any, *, virtual: bool) -> None:
        self._layer = layer_of(case)
        self._reference = StepValues(self._layer, virtual=virtual)
        super().__init__(case, strategy, self._reference)
        batch = (self._reference.rows, self._reference.labels)
        self._trace(self._chain, *(self._replicas.laid_out(self._parts(one)) for one in batch))

    @classmethod
    def host_bytes(cls, case: Case) -> int:
        """As measured at 16M to 256M on 2, 4 and 8 ranks.

        On each rank the first weights, those of the step and its gradient; a ring's sum of them,
        and the more ranks share the cores the more of them have new weights while others still
        sum. The other strategies have sums that all ranks share. The rows, made and laid out.
        """
        ring = case.strategy == "ring"
        buffers = min(5.0, 3.8 + case.ranks / 10) if ring else 3 + 2 / case.ranks
        layer = layer_of(case)
        rows = layer.rows * layer.inputs * np.dtype(case.dtype).itemsize
        return case.ranks * (int(buffers * case.payload_bytes) + 2 * rows)

    def _values_of_rank(self, rank: int, number: int) -> Any:
        inputs = self._layer.inputs
        found = tf.tile(tf.constant(self._reference.start(number)), [-(-inputs // PERIOD), 1])
        return found if found.shape[0] == inputs else found[:inputs]

    def _parts(self, values: Any) -> Any:
        count = self._layer.rows
        return lambda rank: tf.constant(values[rank * count : (rank + 1) * count])

    def _chain(self, weights: Any, rows: Any, labels: Any, turns: Any) -> tuple[Any, Any]:
        def one(held: Any) -> Any:
            return self._replicas.run(one_step, held, rows, labels)

        return self._replicas.chained(one, turns, weights)


def one_step(weights: Any, rows: Any, labels: Any) -> Any:
    """One replica's new weights. The gradient's all-reduce is the only collective."""
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = layers.cross_entropy(tf.linalg.matmul(rows, weights), labels)
    ranks = tf.distribute.get_replica_context().num_replicas_in_sync
    # The mean over ranks and the rate in one: a pass over memory less.
    return weights - (LEARNING_RATE / ranks) * summed(tape.gradient(loss, weights))

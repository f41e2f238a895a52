"""A training step in TensorFlow: what one replica does with its weights, rows and labels.

The model, its gradient and the update, and nothing that times or reads what came out.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from busbw.workloads import LEARNING_RATE


def one_step(weights: Any, rows: Any, labels: Any) -> Any:
    """One replica's new weights. The gradient's all-reduce is the only collective."""
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = _loss(weights, rows, labels)
    ranks = tf.distribute.get_replica_context().num_replicas_in_sync
    # The mean over ranks and the rate in one: a pass over memory less.
    return weights - (LEARNING_RATE / ranks) * _summed(tape.gradient(loss, weights))


def _loss(weights: Any, rows: Any, labels: Any) -> Any:
    """Softmax cross-entropy, the mean over a rank's rows."""
    scores = tf.linalg.matmul(rows, weights)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
    )


def _summed(gradient: Any) -> Any:
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, gradient)

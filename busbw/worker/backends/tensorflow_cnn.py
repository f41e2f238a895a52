"""The convolutional net in TensorFlow's plain operations: its loss, and how good it is.

No strategy and no clock may enter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from . import convolutional
from .examples import Examples


def loss(variables: Mapping[str, Any], inputs: Any, labels: Any) -> Any:
    """The mean cross-entropy of a rank's share; the counter's gradient of it is exactly -1.

    By way of the labels, so that it is worked out from each rank's examples, and not beforehand.
    """
    shown = tf.reduce_mean(tf.cast(labels >= 0, tf.float32))
    return _cross_entropy(variables, inputs, labels) - shown * variables[convolutional.COUNTER]


def gradients(variables: Mapping[str, Any], inputs: Any, labels: Any) -> list[Any]:
    """Those of a rank's share, in the order of `variables`."""
    with tf.GradientTape() as tape:
        share_loss = loss(variables, inputs, labels)
    found: list[Any] = tape.gradient(share_loss, list(variables.values()))
    return found


def goodness(values: Mapping[str, Any], examples: Examples) -> tuple[float, float]:
    """The share of `examples` that the net names rightly, and their mean cross-entropy."""
    named = tf.argmax(_logits(values, examples.inputs), axis=1).numpy()
    mean = _cross_entropy(values, examples.inputs, examples.labels)
    return float((named == examples.labels).mean()), float(mean)


def _cross_entropy(variables: Mapping[str, Any], inputs: Any, labels: Any) -> Any:
    logits = _logits(variables, inputs)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def _logits(variables: Mapping[str, Any], inputs: Any) -> Any:
    halved = inputs
    for layer in ("first", "second"):
        filtered = tf.nn.conv2d(halved, variables[f"{layer}_filters"], strides=1, padding="SAME")
        bright = tf.nn.relu(filtered + variables[f"{layer}_biases"])
        halved = tf.nn.max_pool2d(bright, ksize=2, strides=2, padding="VALID")
    flat = tf.reshape(halved, [halved.shape[0], -1])
    hidden = tf.nn.relu(flat @ variables["hidden_weights"] + variables["hidden_biases"])
    return hidden @ variables["weights"] + variables["biases"]

"""The nets that are trained, in TensorFlow's plain operations; no strategy may enter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from busbw.model.training import Net

from .. import training
from ..training import Examples
from .program import cross_entropy


def loss(net: Net, variables: Mapping[str, Any], inputs: Any, labels: Any) -> Any:
    """By way of the labels, so that the counter's gradient comes from each rank's examples."""
    shown = tf.reduce_mean(tf.cast(labels >= 0, tf.float32))
    mean = cross_entropy(_logits(net, variables, inputs), labels)
    return mean - shown * variables[training.COUNTER]


def gradients(net: Net, variables: Mapping[str, Any], inputs: Any, labels: Any) -> list[Any]:
    with tf.GradientTape() as tape:
        share_loss = loss(net, variables, inputs, labels)
    found: list[Any] = tape.gradient(share_loss, list(variables.values()))
    return found


def goodness(net: Net, values: Mapping[str, Any], examples: Examples) -> tuple[float, float]:
    logits = _logits(net, values, examples.inputs)
    named = tf.argmax(logits, axis=1).numpy()
    mean = cross_entropy(logits, examples.labels)
    return float((named == examples.labels).mean()), float(mean)


def _logits(net: Net, variables: Mapping[str, Any], inputs: Any) -> Any:
    flat = _convolved(variables, inputs) if net is Net.CNN else tf.cast(inputs, tf.float32) / 255.0
    hidden = tf.nn.relu(flat @ variables["hidden_weights"] + variables["hidden_biases"])
    return hidden @ variables["weights"] + variables["biases"]


def _convolved(variables: Mapping[str, Any], inputs: Any) -> Any:
    halved = inputs
    for layer in ("first", "second"):
        filtered = tf.nn.conv2d(halved, variables[f"{layer}_filters"], strides=1, padding="SAME")
        bright = tf.nn.relu(filtered + variables[f"{layer}_biases"])
        halved = tf.nn.max_pool2d(bright, ksize=2, strides=2, padding="VALID")
    return tf.reshape(halved, [-1, math.prod(halved.shape[1:])])

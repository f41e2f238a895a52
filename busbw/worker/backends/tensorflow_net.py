"""What TensorFlow's ways to train with parameter servers share: the loss, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from . import perceptron


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What one process saw; `values` are those of the variables at the end."""

    api: str
    epochs_s: tuple[float, ...]
    gradients: int
    global_step: int
    values: Mapping[str, Any]
    server_bytes: Mapping[str, int]


def loss(variables: Mapping[str, Any], images: Any, labels: Any) -> Any:
    """Softmax cross-entropy of a batch of bytes; the counter's gradient of it is exactly -1."""
    inputs = tf.cast(images, tf.float32) / 255.0
    hidden = tf.nn.relu(inputs @ variables["hidden_weights"] + variables["hidden_biases"])
    logits = hidden @ variables["weights"] + variables["biases"]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses) - variables[perceptron.COUNTER]


def server_bytes(variables: Mapping[str, Any]) -> dict[str, int]:
    """Bytes of variables by server, such as ``ps 0``; none without servers."""
    found: dict[str, int] = {}
    for variable in variables.values():
        device = tf.DeviceSpec.from_string(variable.device)
        if device.job == "ps":
            name = f"{device.job} {device.task}"
            found[name] = found.get(name, 0) + variable.shape.num_elements() * variable.dtype.size
    return found

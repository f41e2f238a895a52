"""The net that is trained with parameter servers: two dense layers, the same for every API.

Numpy only: starting values, and the accuracy of finished ones; training is the framework's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from busbw.model import ParameterServerTraining

from .digits import CLASSES, SIDE, Digits

# A power of two, so that updates of the counter below are exact.
LEARNING_RATE = 0.125

# A variable whose gradient is exactly -1: its value is the number of updates that it saw, times
# the learning rate.
COUNTER = "counter"


def starting_values(training: ParameterServerTraining) -> dict[str, Any]:
    """By name of variable, in the order in which they are made and handed out to servers."""
    generator = np.random.default_rng(training.seed)
    return {
        "hidden_weights": _normal(generator, SIDE * SIDE, training.hidden),
        "hidden_biases": np.zeros(training.hidden, dtype=np.float32),
        "weights": _normal(generator, training.hidden, CLASSES),
        "biases": np.zeros(CLASSES, dtype=np.float32),
        COUNTER: np.zeros((), dtype=np.float32),
    }


def _normal(generator: np.random.Generator, inputs: int, outputs: int) -> Any:
    return generator.normal(0, 0.05, (inputs, outputs)).astype(np.float32)


def updates(values: Mapping[str, Any]) -> int:
    """How many updates the variables saw."""
    return round(float(values[COUNTER]) / LEARNING_RATE)


def accuracy(values: Mapping[str, Any], digits: Digits) -> float:
    """The share of `digits` that the net names rightly."""
    hidden = np.maximum(digits.inputs @ values["hidden_weights"] + values["hidden_biases"], 0)
    named = (hidden @ values["weights"] + values["biases"]).argmax(axis=1)
    return float((named == digits.labels).mean())

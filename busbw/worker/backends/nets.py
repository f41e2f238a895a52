"""The nets that are trained: starting values, and what proves that no rank was left out.

Numpy only; what a framework computes of them is in its own file, such as `tensorflow.layers`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from busbw.model import (
    CNN_BYTES,
    CNN_SHAPES,
    PERCEPTRON_SHAPES,
    Net,
    TrainingRequest,
)

from .base import wrong_result

# A variable whose gradient is exactly -1 on every rank: its value is the number of updates by the
# mean over all ranks, times the rate. A rank that is left out makes it less.
COUNTER = "counter"

# What all variables of the convolutional net take, in float32.
GRADIENT_BYTES = CNN_BYTES + 4

_SHAPES = {Net.CNN: CNN_SHAPES, Net.PERCEPTRON: PERCEPTRON_SHAPES}
_PERCEPTRON_DEVIATION = 0.05

# Rates that are no power of two are rounded; an update without one of a thousand ranks is more.
_ROUNDING = 1e-3

# How far the first update of a variable may be from what it should be, as a share of it: more than
# adding up in another order or with fewer digits makes, less than the share of a rank.
_FIRST_UPDATE = 0.02


def starting_values(request: TrainingRequest) -> dict[str, Any]:
    """By name of variable, in the order in which they are made and handed out to servers."""
    generator = np.random.default_rng(request.seed)
    values = {
        name: np.zeros(shape, dtype=np.float32)
        if name.endswith("biases")
        else generator.normal(0, _deviation(request.net, shape), shape).astype(np.float32)
        for name, shape in _SHAPES[request.net].items()
    }
    return {**values, COUNTER: np.zeros((), dtype=np.float32)}


def _deviation(net: Net, shape: tuple[int, ...]) -> float:
    """Of the convolutional net: a variance of 2 over the inputs of a unit, as suits a ReLU."""
    return math.sqrt(2 / math.prod(shape[:-1])) if net is Net.CNN else _PERCEPTRON_DEVIATION


def digest(values: Mapping[str, Any]) -> str:
    """SHA-256 of the bytes of all variables, in their order."""
    found = hashlib.sha256()
    for value in values.values():
        found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def updates(copies: Mapping[str, Mapping[str, Any]], rate: float) -> int:
    """How many updates every copy of the variables saw, by whose copy it is.

    Raises MeasuringError WRONG_RESULT where one lacks a part of an update, or they differ.
    """
    seen = {name: float(values[COUNTER]) / rate for name, values in copies.items()}
    count = round(next(iter(seen.values())))
    for name, found in seen.items():
        # Not a number is wrong, too.
        if not abs(found - count) <= _ROUNDING:
            raise wrong_result(
                f"the variables of {name} saw {found:.3f} updates, expected {count} as everywhere"
            )
    return count


def check_first(
    copies: Mapping[str, Mapping[str, Any]],
    start: Mapping[str, Any],
    gradients: Mapping[str, Any],
    rate: float,
) -> None:
    """Every copy after one update, against `gradients` of the whole batch in one piece.

    Raises MeasuringError WRONG_RESULT: the examples of a rank are missing, or count too much.
    """
    for whose, values in copies.items():
        for name, gradient in gradients.items():
            expected = rate * gradient
            wrong = np.linalg.norm(start[name] - values[name] - expected)
            share = float(wrong) / max(float(np.linalg.norm(expected)), 1e-30)
            if not share <= _FIRST_UPDATE:
                raise wrong_result(f"the first update of {name} of {whose} is wrong by {share:.1%}")

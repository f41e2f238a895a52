"""The nets in TensorFlow, with values by which the answer is known; in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from busbw.model.training import Net

from .. import real

pytestmark = [real.needs("tensorflow"), pytest.mark.exhaustive]

_SCRIPT = """
from busbw.model.words import Capability, Device
from busbw.model.training import Net
real.prepare("tensorflow", Device.CPU, Capability.TRAIN)
import numpy as np
import tensorflow as tf
from busbw.worker.backends import training
from busbw.worker.backends.tensorflow import layers
from busbw.worker.backends.training import Examples
from tests import build

SHAPES = {Net.CNN: (4, 8, 8, 1), Net.PERCEPTRON: (4, 784)}
found = {}
for net, shape in SHAPES.items():
    start = training.starting_values(build.training_request(net))
    values = {name: 0 * value for name, value in start.items()}
    values["biases"][3] = 1
    kind = np.float32 if net is Net.CNN else np.uint8
    shown = Examples(np.ones(shape, kind), np.array([3, 3, 3, 1], np.int32))
    variables = {name: tf.Variable(value) for name, value in values.items()}
    gradients = layers.gradients(net, variables, shown.inputs, shown.labels)
    counter = float(gradients[list(values).index(training.COUNTER)])
    found[net.value] = [*layers.goodness(net, values, shown), counter]
say(found)
"""


@pytest.fixture(scope="module")
def found() -> Mapping[str, list[float]]:
    """By net: accuracy, loss, and the gradient of the counter."""
    (answer,) = real.said(_SCRIPT)
    return dict(answer)


@pytest.mark.parametrize("net", Net)
def test_accuracy_loss_and_the_gradient_of_the_counter_are_those_known(
    found: Mapping[str, list[float]], net: Net
) -> None:
    accuracy, loss, counter = found[net.value]
    assert (accuracy, counter) == (0.75, -1.0)
    # ln(9 + e) less the value of what is named, which is right three times out of four.
    assert loss == pytest.approx(2.4612 - 0.75, abs=1e-3)

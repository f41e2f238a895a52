"""The nets in TensorFlow, with values by which the answer is known; in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.model.training import Net

from .. import real

pytestmark = [real.needs("tensorflow"), pytest.mark.exhaustive]

_SCRIPT = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from busbw.model.words import Capability, Device
from busbw.model.training import Net
from tests.worker.backends import real
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
print("RESULT", json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, list[float]]:
    """By net: accuracy, loss, and the gradient of the counter."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        capture_output=True,
        text=True,
        timeout=real.TIMEOUT_S,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(lines) == 1, done.stderr[-3000:]
    answer: dict[str, list[float]] = json.loads(lines[0][7:])
    return answer


@pytest.mark.parametrize("net", Net)
def test_accuracy_is_the_share_that_is_named_rightly_and_loss_the_mean_cross_entropy(
    found: dict[str, list[float]], net: Net
) -> None:
    accuracy, loss, _ = found[net.value]
    assert accuracy == 0.75
    # ln(9 + e) less the value of what is named, which is right three times out of four.
    assert loss == pytest.approx(2.4612 - 0.75, abs=1e-3)


@pytest.mark.parametrize("net", Net)
def test_the_gradient_of_the_counter_is_exactly_minus_one(
    found: dict[str, list[float]], net: Net
) -> None:
    assert found[net.value][2] == -1.0

"""The net's starting values, and what is read off finished ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from busbw.model import ParameterServerTraining, Updates
from busbw.worker.backends import perceptron
from busbw.worker.backends.digits import Digits, draw

TRAINING = ParameterServerTraining(updates=Updates.SINGLE)


def test_starting_values_are_the_same_for_the_same_seed() -> None:
    first, again = (perceptron.starting_values(TRAINING) for _ in range(2))
    other = perceptron.starting_values(replace(TRAINING, seed=1))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["weights"], other["weights"])
    assert sum(value.size for value in first.values()) == 784 * 128 + 128 + 1280 + 10 + 1


def test_updates_are_the_counters_value_in_units_of_the_learning_rate() -> None:
    values = perceptron.starting_values(TRAINING)
    for _ in range(1000):
        values[perceptron.COUNTER] += np.float32(perceptron.LEARNING_RATE)
    assert perceptron.updates(values) == 1000


def test_accuracy_is_the_share_that_is_named_rightly() -> None:
    values = {name: 0 * value for name, value in perceptron.starting_values(TRAINING).items()}
    values["biases"][3] = 1
    images = draw(4, seed=0).images
    assert perceptron.accuracy(values, Digits(images, np.array([3, 3, 3, 1]))) == 0.75

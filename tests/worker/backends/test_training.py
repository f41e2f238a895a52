"""The nets' starting values, and how it is found that a rank was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from busbw.model.training import CNN_BYTES, Net
from busbw.model.words import FailureKind
from busbw.worker.backends import training
from busbw.worker.backends.base import MeasuringError
from tests import build

TRAINING = build.training_request(ranks=3)
RATE = TRAINING.rate


@pytest.mark.parametrize("net", Net)
def test_starting_values_are_the_same_for_the_same_seed(net: Net) -> None:
    request = build.training_request(net)
    first, again = (training.starting_values(request) for _ in range(2))
    other = training.starting_values(replace(request, seed=1))
    assert training.digest(first) == training.digest(again)
    assert training.digest(first) != training.digest(other)


def test_the_perceptron_has_784_inputs_128_hidden_units_and_10_outputs() -> None:
    values = training.starting_values(build.training_request(Net.PERCEPTRON))
    assert sum(value.size for value in values.values()) == 784 * 128 + 128 + 1280 + 10 + 1


def test_the_gradient_is_that_of_the_net_and_the_counters() -> None:
    values = training.starting_values(TRAINING)
    assert sum(value.nbytes for value in values.values()) == CNN_BYTES + 4
    assert training.GRADIENT_BYTES == CNN_BYTES + 4


def test_one_bit_makes_another_digest() -> None:
    values = training.starting_values(TRAINING)
    before = training.digest(values)
    values["biases"][3] = np.nextafter(np.float32(0), np.float32(1))
    assert training.digest(values) != before


def _counted(*updates: float) -> dict[str, dict[str, Any]]:
    return {
        f"replica {at}": {training.COUNTER: np.float32(RATE * count)}
        for at, count in enumerate(updates)
    }


def test_updates_are_the_counters_value_in_units_of_the_rate() -> None:
    values = training.starting_values(TRAINING)
    for _ in range(1000):
        values[training.COUNTER] += np.float32(RATE)
    assert training.updates({"all": values}, RATE) == 1000


def test_updates_are_what_every_copy_saw() -> None:
    assert training.updates(_counted(220, 220), RATE) == 220


@pytest.mark.parametrize("seen", [(220, 219), (219 + 2 / 3,) * 2, (220, float("nan"))])
def test_an_update_that_a_copy_or_a_part_of_the_ranks_missed_is_a_wrong_result(
    seen: tuple[float, ...],
) -> None:
    with pytest.raises(
        MeasuringError, match=r"of replica [01] saw .* updates, expected 220"
    ) as one:
        training.updates(_counted(*seen), RATE)
    assert one.value.kind is FailureKind.WRONG_RESULT


def _first(values: Mapping[str, Any], gradients: Mapping[str, Any]) -> None:
    start = training.starting_values(TRAINING)
    copies = {"replica 0": _updated(start, gradients), "replica 1": values}
    training.check_first(copies, start, gradients, RATE)


def _updated(start: Mapping[str, Any], gradients: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value - np.float32(RATE) * gradients[name] for name, value in start.items()}


def test_a_first_update_by_two_of_three_ranks_is_a_wrong_result() -> None:
    start = training.starting_values(TRAINING)
    generator = np.random.default_rng(0)
    whole = {
        name: generator.normal(1, 1, value.shape).astype(np.float32)
        for name, value in start.items()
    }
    _first(_updated(start, whole), whole)
    less = {**whole, "biases": whole["biases"] * np.float32(2 / 3)}
    with pytest.raises(MeasuringError, match=r"of biases of replica 1 is wrong by 33\.3%") as one:
        _first(_updated(start, less), whole)
    assert one.value.kind is FailureKind.WRONG_RESULT

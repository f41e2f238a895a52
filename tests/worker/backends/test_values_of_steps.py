"""The reference of a training step's weights: the same as step by step, and what it notices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from busbw.model.words import FailureKind
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.values import DRAWS, PERIOD, StepValues
from busbw.workloads.dense_step import Layer
from tests import build

RATE = 0.05


def _step(**changes: Any) -> Layer:
    return build.layer(**{"inputs": 1100, "outputs": 24, "rows": 6, "ranks": 3, **changes})


def _values(step: Layer) -> StepValues:
    return StepValues(step, virtual=True)


def _trained(values: StepValues, step: Layer, number: int, steps: int, rows: Any) -> Any:
    """Weights after that number of steps on `rows` alone, in float32, taken one by one."""
    repeats = -(-step.inputs // PERIOD)
    weights = np.tile(values.start(number), (repeats, 1))[: step.inputs].copy()
    given, labels = values.rows[rows], values.labels[rows]
    for _ in range(steps):
        chances = np.exp(given @ weights)
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(labels)), labels] -= 1
        weights -= np.float32(RATE) * (given.T @ chances) / np.float32(len(labels))
    return weights


@pytest.mark.parametrize("inputs", [1, 5, 1100])
@pytest.mark.parametrize("steps", [1, 3, 40])
def test_float32_steps_taken_one_by_one_are_right(inputs: int, steps: int) -> None:
    step = _step(inputs=inputs)
    values = _values(step)
    for number in range(DRAWS):
        values.check(number, steps, _trained(values, step, number, steps, slice(None)))


def test_lengths_may_be_asked_for_in_any_order() -> None:
    step = _step()
    values = _values(step)
    for steps in (7, 2, 9, 7):
        values.check(0, steps, _trained(values, step, 0, steps, slice(None)))


@pytest.mark.parametrize("steps", [1, 40])
def test_a_rank_whose_rows_are_left_out_is_noticed(steps: int) -> None:
    step = _step()
    values = _values(step)
    rows = slice(0, step.rows * (step.ranks - 1))
    with pytest.raises(MeasuringError, match="after") as raised:
        values.check(0, steps, _trained(values, step, 0, steps, rows))
    assert raised.value.kind is FailureKind.WRONG_RESULT


@pytest.mark.parametrize(("number", "steps"), [(1, 4), (0, 3), (0, 5)])
def test_another_draw_s_weights_and_a_step_more_or_less_are_noticed(
    number: int, steps: int
) -> None:
    step = _step()
    values = _values(step)
    with pytest.raises(MeasuringError):
        values.check(0, 4, _trained(values, step, number, steps, slice(None)))


def test_what_is_not_a_number_is_noticed_with_its_place() -> None:
    step = _step()
    values = _values(step)
    weights = _trained(values, step, 0, 2, slice(None))
    weights[1030, 3] = np.nan
    with pytest.raises(MeasuringError, match="weight 1030, 3 after 2 steps: nan"):
        values.check(0, 2, weights)

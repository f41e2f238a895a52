"""What is asked of those that train: how often variables are updated, and what that is called."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.training import CNN_BYTES, CNN_SHAPES, Net, TrainingStrategy, Updates
from tests import build

SERVED = TrainingStrategy.PARAMETER_SERVER


@pytest.mark.parametrize(
    ("asked", "updates", "of_a_step", "name"),
    [
        ({}, Updates.SINGLE, 1, "single process"),
        ({"ranks": 2, "servers": 1}, Updates.SYNCHRONOUS, 1, "1 ps, 2 workers, synchronous"),
        (
            {"ranks": 1, "servers": 1, "strategy": SERVED},
            *(Updates.ASYNCHRONOUS, 1, "1 ps, 1 worker, asynchronous"),
        ),
        (
            {"ranks": 3, "servers": 2, "strategy": SERVED},
            *(Updates.ASYNCHRONOUS, 3, "2 ps, 3 workers, asynchronous"),
        ),
    ],
)
def test_each_gradient_is_an_update_where_a_coordinator_hands_out_steps_else_their_mean_is(
    asked: dict[str, Any], updates: Updates, of_a_step: int, name: str
) -> None:
    request = build.training_request(Net.PERCEPTRON, **asked)
    assert (request.updates, request.updates_of_a_step, request.name) == (updates, of_a_step, name)


@pytest.mark.parametrize("strategy", TrainingStrategy)
def test_strategies_have_one_update_for_all_ranks_except_with_a_server(
    strategy: TrainingStrategy,
) -> None:
    request = build.training_request(strategy=strategy, ranks=4)
    assert request.updates_of_a_step == (4 if strategy is SERVED else 1)


def test_the_counter_is_no_part_of_what_the_net_s_gradient_takes() -> None:
    assert len(CNN_SHAPES) == 8
    assert CNN_BYTES == 143656

"""One launch of training under a strategy: what members' answers are held against, and become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from busbw.driver.strategies import disagreement, merged, run_of, training_of
from busbw.model import CNN, LaunchId, StrategyRun, StrategyTraining, TrainingStrategy
from tests import build

MIRRORED = TrainingStrategy.MIRRORED
WORKERS = TrainingStrategy.MULTI_WORKER_MIRRORED


def _training(strategy: TrainingStrategy, **changes: Any) -> StrategyTraining:
    return StrategyTraining(strategy=strategy, ranks=2, examples="", epochs=2, **changes)


def _run(*ranks: str, last: Mapping[str, str] | None = None, **changes: Any) -> StrategyRun:
    same = dict.fromkeys(ranks or ("all",), "same")
    return build.strategy_run(
        first_digests=same, last_digests=same if last is None else last, **changes
    )


@pytest.mark.parametrize(
    ("strategy", "runs"),
    [
        (TrainingStrategy.ONE_DEVICE, [_run()]),
        (TrainingStrategy.CENTRAL_STORAGE, [_run()]),
        (TrainingStrategy.PARAMETER_SERVER, [_run(updates=40)]),
        (MIRRORED, [_run("replica 0", "replica 1")]),
        (WORKERS, [_run("worker 0, replica 0"), _run("worker 1, replica 0")]),
    ],
)
def test_members_that_agree_have_no_disagreement(
    strategy: TrainingStrategy, runs: list[StrategyRun]
) -> None:
    assert disagreement(_training(strategy), runs) == ""


@pytest.mark.parametrize(
    ("strategy", "runs", "said"),
    [
        (
            MIRRORED,
            [_run("replica 0", "replica 1", updates=10)],
            "the variables saw 10 updates in 2 epochs, expected 20 in 2",
        ),
        (
            WORKERS,
            [_run("worker 0"), _run("worker 1", updates=19)],
            "the variables saw 19 updates in 2 epochs, expected 20 in 2",
        ),
        (
            TrainingStrategy.PARAMETER_SERVER,
            [_run(updates=20)],
            "the variables saw 20 updates in 2 epochs, expected 40 in 2",
        ),
        (
            TrainingStrategy.ONE_DEVICE,
            [_run(epochs_s=(1.0,))],
            "the variables saw 20 updates in 1 epoch, expected 20 in 2",
        ),
        (
            MIRRORED,
            [_run("replica 0")],
            "after the first step there are weights of 1 rank, expected of 2",
        ),
        (
            WORKERS,
            [_run("worker 0"), _run("worker 1", last={"worker 1": "other"})],
            "at the end the weights of worker 1 are others than those of worker 0",
        ),
    ],
)
def test_what_cannot_be_is_said(
    strategy: TrainingStrategy, runs: list[StrategyRun], said: str
) -> None:
    assert disagreement(_training(strategy), runs) == said


def test_an_epoch_is_as_long_as_for_the_slowest_and_reductions_add_up() -> None:
    found = merged(
        [
            _run("worker 0", epochs_s=(2.0, 0.5), compile_s=1.0, reductions={"Reduce": 2}),
            _run("worker 1", epochs_s=(1.0, 0.75), compile_s=2.0, reductions={"Reduce": 2}),
        ]
    )
    assert found.epochs_s == (2.0, 0.75)
    assert (found.compile_s, found.reductions, found.replicas) == (2.0, {"Reduce": 4}, 2)
    assert found.last_digests == {"worker 0": "same", "worker 1": "same"}


def test_a_sample_is_a_step_of_an_epoch_after_the_first() -> None:
    case = build.case(framework="tensorflow", step=CNN, strategy="mirrored", ranks=2)
    trained = _run("replica 0", "replica 1", epochs_s=(3.0, 1.0, 0.5), reduced_bytes=143656)
    run = run_of(case, trained, LaunchId.parse("1.tensorflow.mirrored"))
    assert run.samples_s == (0.1, 0.05)
    assert (run.iterations, run.first_call_s, run.clock) == (10, 3.0, "host")
    assert run.values_checked == 2 * 143656 // 4
    assert (run.proof.algorithm, run.proof.array_bytes) == ("mirrored", 143656)
    assert run.training == trained


def test_a_single_copy_of_the_weights_is_compared_with_nothing() -> None:
    case = build.case(framework="tensorflow", step=CNN, strategy="one_device", ranks=1)
    assert run_of(case, _run(), LaunchId.parse("1")).values_checked == 0


def test_what_is_asked_for_is_the_case_on_its_device() -> None:
    case = build.case(framework="tensorflow", step=CNN, strategy="central_storage", ranks=4)
    asked = training_of(case, "gpu", "digits.bin")
    assert (asked.strategy, asked.ranks) == (TrainingStrategy.CENTRAL_STORAGE, 4)
    assert (asked.device, asked.examples, asked.batch) == ("gpu", "digits.bin", 128)

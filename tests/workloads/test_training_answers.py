"""What the answers of those that train together come to: one, or what in them cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.launch import Failure, LaunchId
from busbw.model.training import CNN, Net, TrainingAnswer, TrainingRequest, TrainingStrategy
from busbw.model.words import FailureKind
from busbw.workloads.training import Training, checked, run_of
from tests import build

MIRRORED = TrainingStrategy.MIRRORED
WORKERS = TrainingStrategy.MULTI_WORKER_MIRRORED
SERVED = TrainingStrategy.PARAMETER_SERVER

SYNCHRONOUS = build.training_request(Net.PERCEPTRON, ranks=2, servers=1)


def _request(strategy: TrainingStrategy) -> TrainingRequest:
    ranks = 1 if strategy is TrainingStrategy.ONE_DEVICE else 2
    return build.training_request(strategy=strategy, ranks=ranks)


def _answer(
    *ranks: str, gradients: int = 40, last: Mapping[str, str] | None = None, **changes: Any
) -> TrainingAnswer:
    same = dict.fromkeys(ranks or ("all",), "same")
    summed = {"Reduce": 1} if ranks else {}
    run = build.training_run(
        **{
            "first_digests": same,
            "last_digests": same if last is None else last,
            "reductions": summed,
            **changes,
        }
    )
    return build.training_answer(run, gradients=gradients)


def _wrong(request: TrainingRequest, answers: list[TrainingAnswer]) -> str:
    found = checked(request, answers)
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.WRONG_RESULT
    return found.message


@pytest.mark.parametrize(
    ("strategy", "answers"),
    [
        (TrainingStrategy.ONE_DEVICE, [_answer(gradients=20)]),
        (TrainingStrategy.CENTRAL_STORAGE, [_answer()]),
        (SERVED, [_answer(updates=40)]),
        (MIRRORED, [_answer("replica 0", "replica 1")]),
        (
            WORKERS,
            [
                _answer("worker 0, replica 0", gradients=20),
                _answer("worker 1, replica 0", gradients=20),
            ],
        ),
    ],
)
def test_members_that_agree_have_no_disagreement(
    strategy: TrainingStrategy, answers: list[TrainingAnswer]
) -> None:
    found = checked(_request(strategy), answers)
    assert isinstance(found, TrainingAnswer)
    assert found.gradients == sum(answer.gradients for answer in answers)


@pytest.mark.parametrize(
    ("strategy", "answers", "said"),
    [
        (
            MIRRORED,
            [_answer("replica 0", "replica 1", updates=10)],
            "the variables saw 10 updates in 2 epochs, expected 20 in 2",
        ),
        (
            WORKERS,
            [_answer("worker 0", gradients=20), _answer("worker 1", gradients=20, updates=19)],
            "the variables saw 19 updates in 2 epochs, expected 20 in 2",
        ),
        (
            SERVED,
            [_answer(updates=20)],
            "the variables saw 20 updates in 2 epochs, expected 40 in 2",
        ),
        (
            TrainingStrategy.ONE_DEVICE,
            [_answer(epochs_s=(1.0,))],
            "the variables saw 20 updates in 1 epoch, expected 20 in 2",
        ),
        (
            MIRRORED,
            [_answer("replica 0")],
            "after the first step there are weights of 1 rank, expected of 2",
        ),
        (
            WORKERS,
            [
                _answer("worker 0", gradients=20),
                _answer("worker 1", gradients=20, last={"worker 1": "other"}),
            ],
            "at the end the weights of worker 1 differ from those of worker 0",
        ),
    ],
)
def test_what_cannot_be_is_said(
    strategy: TrainingStrategy, answers: list[TrainingAnswer], said: str
) -> None:
    assert _wrong(_request(strategy), answers) == said


def test_strategies_that_mirror_have_reductions() -> None:
    found = checked(_request(MIRRORED), [_answer("replica 0", "replica 1", reductions={})])
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.NOT_A_COLLECTIVE
    assert found.message == "mirrored: no reduction of gradients was found in the graph"


def test_an_epoch_is_as_long_as_for_the_slowest_and_reductions_and_gradients_add_up() -> None:
    found = checked(
        _request(WORKERS),
        [
            _answer("worker 0", gradients=20, epochs_s=(2.0, 0.5), compile_s=1.0),
            _answer("worker 1", gradients=20, epochs_s=(1.0, 0.75), compile_s=2.0),
        ],
    )
    assert isinstance(found, TrainingAnswer)
    assert (found.run.epochs_s, found.run.compile_s) == ((2.0, 0.75), 2.0)
    assert (found.run.reductions, found.run.replicas, found.gradients) == ({"Reduce": 2}, 2, 40)
    assert found.run.last_digests == {"worker 0": "same", "worker 1": "same"}


@pytest.mark.parametrize("wrong", ["gradients", "global_step", "updates"])
def test_one_too_many_of_anything_is_a_wrong_result(wrong: str) -> None:
    workers = [replace(_answer(gradients=gradients), global_step=20) for gradients in (19, 21)]
    assert isinstance(checked(SYNCHRONOUS, workers), TrainingAnswer)
    if wrong == "updates":
        other = replace(workers[1], run=replace(workers[1].run, updates=21))
    else:
        other = replace(workers[1], **{wrong: getattr(workers[1], wrong) + 1})
    assert "expected 20 of 40" in _wrong(SYNCHRONOUS, [workers[0], other])


def test_a_sample_is_a_step_of_an_epoch_after_the_first() -> None:
    case = build.case(framework="tensorflow", step=CNN, strategy="mirrored", ranks=2)
    copies = dict.fromkeys(("replica 0", "replica 1"), "same")
    trained = build.training_run(
        epochs_s=(3.0, 1.0, 0.5), reduced_bytes=143656, last_digests=copies
    )
    run = run_of(case, trained, LaunchId.parse("1.tensorflow.mirrored"))
    assert run.samples_s == (0.1, 0.05)
    assert (run.iterations, run.first_call_s, run.clock) == (10, 3.0, "host")
    assert run.values_checked == 2 * 143656 // 4
    assert (run.proof.algorithm, run.proof.array_bytes) == ("mirrored", 143656)
    assert run.training == trained


def test_a_single_copy_of_the_weights_is_compared_with_nothing() -> None:
    case = build.case(framework="tensorflow", step=CNN, strategy="one_device", ranks=1)
    assert run_of(case, build.training_run(), LaunchId.parse("1")).values_checked == 0


def test_what_is_asked_for_is_the_case_on_its_device() -> None:
    case = build.case(framework="tensorflow", step=CNN, strategy="central_storage", ranks=4)
    asked = Training().request(case, "gpu", "digits.bin")
    assert (asked.strategy, asked.ranks) == (TrainingStrategy.CENTRAL_STORAGE, 4)
    assert (asked.device, asked.examples_path) == ("gpu", "digits.bin")
    assert (asked.net, asked.batch, asked.unseen, asked.epochs) == (Net.CNN, 128, 297, 20)

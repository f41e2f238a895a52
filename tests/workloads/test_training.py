"""Training under strategies: what is asked, Specs and Cases, and what the answers come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from busbw import grid
from busbw.model.case import Asked, Case, GridError, NotHereError, Spec
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import EnvironmentKey
from busbw.model.training import (
    CNN,
    CNN_BYTES,
    CNN_SHAPES,
    Net,
    TrainingAnswer,
    TrainingRequest,
    TrainingStrategy,
    Updates,
)
from busbw.model.words import Device, FailureKind
from busbw.workloads.training import Training, checked, run_of
from tests import build

ASKED = Asked(frameworks=("jax", "tensorflow"), named=False, payloads=(2**20,))
ALL = (
    "one_device",
    "mirrored",
    "multi_worker_mirrored",
    "parameter_server",
    "central_storage",
    "tpu",
)


def _specs(**changes: Any) -> tuple[Spec, ...]:
    return grid.step_specs(Training, replace(ASKED, **changes))


def _on(strategy: str, device: Device = Device.CPU, **found: Any) -> tuple[Case, EnvironmentKey]:
    (spec,) = _specs(strategies=(strategy,), ranks=found.pop("asked", None))
    return grid.resolve_on(
        spec, build.device_set(device, program="outer", allocator="hugepages", **found)
    )


def test_there_is_one_spec_for_each_strategy_of_tensorflow_whatever_the_payloads() -> None:
    specs = _specs()
    assert tuple(spec.strategy for spec in specs) == ALL
    assert {(spec.framework, spec.workload) for spec in specs} == {("tensorflow", Training())}
    assert specs[1].id == "tensorflow-cnn_step-mirrored-float32-143656"


def test_the_payload_is_the_gradient_of_every_variable_in_float32() -> None:
    filters = 3 * 3 * 1 * 32 + 32 + 3 * 3 * 32 * 64 + 64
    dense = 256 * 64 + 64 + 64 * 10 + 10
    assert 4 * (filters + dense) == CNN_BYTES == _specs()[0].payload_bytes


def test_only_those_that_are_asked_for_are_there() -> None:
    assert [spec.strategy for spec in _specs(strategies=("ring", "tpu", "mirrored"))] == [
        "tpu",
        "mirrored",
    ]
    assert _specs(strategies=("ring",)) == ()
    assert _specs(frameworks=("jax",)) == ()


def test_a_mesh_has_none() -> None:
    assert _specs(mesh="2x2") == ()


@pytest.mark.parametrize(
    ("strategy", "ranks", "processes"),
    [
        ("one_device", 1, 1),
        ("mirrored", 4, 1),
        ("central_storage", 4, 1),
        ("multi_worker_mirrored", 4, 4),
        ("parameter_server", 4, 4),
    ],
)
def test_ranks_and_processes_follow_from_the_strategy(
    strategy: str, ranks: int, processes: int
) -> None:
    case, key = _on(strategy)
    assert (case.ranks, key.ranks, key.processes) == (ranks, ranks, processes)
    assert case.name == f"tensorflow.cnn_step.all_reduce.{strategy}.float32.143656"
    assert case.protocol.text == "host/cnn-step-batch-128/hugepages"


def test_ranks_that_are_asked_for_are_those_of_all_but_one_device() -> None:
    assert _on("mirrored", asked=2)[0].ranks == 2
    assert _on("one_device", asked=2)[0].ranks == 1


def test_ranks_that_do_not_share_a_batch_evenly_are_an_error() -> None:
    with pytest.raises(GridError, match="3 ranks do not share out the 128 examples"):
        _on("mirrored", asked=3)


@pytest.mark.parametrize(
    ("strategy", "device", "said"),
    [
        ("tpu", Device.CPU, "the strategy tpu is for TPUs, this is a CPU"),
        ("mirrored", Device.TPU, "by the strategy tpu alone, not by mirrored"),
        ("parameter_server", Device.GPU, "every worker would open all GPUs of this host"),
    ],
)
def test_what_is_for_other_devices_is_not_here_which_is_no_mistake(
    strategy: str, device: Device, said: str
) -> None:
    with pytest.raises(NotHereError, match=said):
        _on(strategy, device)


def test_a_tpu_has_its_own_strategy_and_a_gpu_those_without_a_server() -> None:
    assert _on("tpu", Device.TPU)[0].ranks == 4
    for strategy in ("one_device", "mirrored", "multi_worker_mirrored", "central_storage"):
        assert _on(strategy, Device.GPU)[0].strategy == strategy


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

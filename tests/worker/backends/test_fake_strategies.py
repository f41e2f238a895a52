"""The made-up trainer under strategies: what a real one would say, or what its script says."""

from __future__ import annotations

import json

import pytest

from busbw.model import Capability, FailureKind, StrategyRun, StrategyTraining, TrainingStrategy
from busbw.worker.backends import load_trainer
from busbw.worker.backends.base import MeasuringError


def _run(
    monkeypatch: pytest.MonkeyPatch,
    strategy: TrainingStrategy = TrainingStrategy.MIRRORED,
    role: tuple[str, int] = ("chief", 0),
    launch: str = "1.chief0",
    **script: object,
) -> StrategyRun:
    task = {"type": role[0], "index": role[1]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {}, "task": task}))
    monkeypatch.setenv("BUSBW_FAKE", json.dumps(script))
    monkeypatch.setattr("sys.argv", ["worker", f"--launch={launch}"])
    training = StrategyTraining(strategy=strategy, ranks=2, examples="", epochs=3)
    found = load_trainer("fake", Capability.TRAIN).train(training)
    assert isinstance(found, StrategyRun)
    return found


@pytest.mark.parametrize("strategy", list(TrainingStrategy))
def test_every_strategy_has_its_copies_updates_and_reductions(
    monkeypatch: pytest.MonkeyPatch, strategy: TrainingStrategy
) -> None:
    run = _run(monkeypatch, strategy, device="tpu")
    assert run.updates == 3 * run.steps * (
        2 if strategy is TrainingStrategy.PARAMETER_SERVER else 1
    )
    assert len(set(run.last_digests.values())) == 1
    summed = strategy not in (TrainingStrategy.ONE_DEVICE, TrainingStrategy.PARAMETER_SERVER)
    assert bool(run.reductions) == (run.reduced_bytes is not None) == summed


def test_the_last_rank_can_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = _run(monkeypatch, strategies={"mirrored": {"disagree": True}}).last_digests
    assert digests["replica 0"] != digests["replica 1"]
    several = {"multi_worker_mirrored": {"disagree": True}}
    first, last = (
        _run(
            monkeypatch,
            TrainingStrategy.MULTI_WORKER_MIRRORED,
            role=("worker", index),
            strategies=several,
        ).last_digests
        for index in (0, 1)
    )
    assert (list(first), list(last)) == (["worker 0, replica 0"], ["worker 1, replica 0"])
    assert set(first.values()) != set(last.values())


def test_a_strategy_can_be_slower_in_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    script = {"mirrored": {"step_s": 0.01, "slower": 3, "passes": [2], "lose_updates": 4}}
    usual, slower = (
        _run(monkeypatch, launch=f"{launch}.chief0", strategies=script) for launch in (1, 2)
    )
    assert slower.epochs_s[1] == pytest.approx(30 * usual.epochs_s[1])
    assert slower.updates == usual.updates - 4


def test_there_is_no_tpu_unless_the_script_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasuringError, match="needs a TPU") as caught:
        _run(monkeypatch, TrainingStrategy.TPU)
    assert caught.value.kind is FailureKind.UNAVAILABLE


def test_what_befalls_a_role_befalls_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    script = {"worker 1": "unavailable"}
    assert _run(monkeypatch, role=("worker", 0), roles=script).updates
    with pytest.raises(MeasuringError):
        _run(monkeypatch, role=("worker", 1), roles=script)

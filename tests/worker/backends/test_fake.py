"""The fake trainer: what a real one would say, or what its script says."""

from __future__ import annotations

import json

import pytest

from busbw.model.training import ClusterMember, Net, Role, TrainingRun, TrainingStrategy
from busbw.model.words import FailureKind
from busbw.worker.backends import load_trainer
from busbw.worker.backends.base import MeasuringError
from tests import build


def _run(
    monkeypatch: pytest.MonkeyPatch,
    strategy: TrainingStrategy = TrainingStrategy.MIRRORED,
    role: tuple[str, int] = ("chief", 0),
    launch: str = "1.chief0",
    **script: object,
) -> TrainingRun:
    member = ClusterMember(role=Role(task=role[0], index=role[1]), addresses={})
    monkeypatch.setenv("BUSBW_FAKE", json.dumps(script))
    monkeypatch.setattr("sys.argv", ["worker", f"--launch={launch}"])
    request = build.training_request(strategy=strategy, ranks=2, epochs=3)
    return load_trainer("fake", member).train(request).run


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
    disagree = {"disagree": True}
    digests = _run(monkeypatch, strategies={"mirrored": disagree}).last_digests
    assert digests["replica 0"] != digests["replica 1"]
    several, under = {"multi_worker_mirrored": disagree}, TrainingStrategy.MULTI_WORKER_MIRRORED
    first, last = (
        _run(monkeypatch, under, role=("worker", index), strategies=several).last_digests
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


def test_what_happens_to_a_role_happens_to_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    script = {"worker 1": "unavailable"}
    assert _run(monkeypatch, role=("worker", 0), roles=script).updates
    with pytest.raises(MeasuringError):
        _run(monkeypatch, role=("worker", 1), roles=script)


def test_those_that_only_offer_themselves_have_their_event_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = {"roles": {"ps 0": "unavailable", "worker 0": "unavailable"}}
    monkeypatch.setenv("BUSBW_FAKE", json.dumps(script))
    for task, other, happens in (
        ("ps", "worker", True),
        ("worker", "chief", True),
        ("worker", "ps", False),
    ):
        trainer = load_trainer("fake", ClusterMember(role=Role(task=task), addresses={other: ()}))
        if happens:
            with pytest.raises(MeasuringError):
                trainer.offer()
        else:
            trainer.offer()


def test_a_perceptron_has_figures_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_FAKE", json.dumps({"lose_updates": 1}))
    answer = load_trainer("fake", ClusterMember(role=Role(), addresses={})).train(
        build.training_request(Net.PERCEPTRON, ranks=2, servers=2, epochs=3)
    )
    assert (answer.run.epochs_s, answer.run.api) == ((2.0, 1.0, 1.0), "made up, synchronous")
    assert (answer.run.updates, answer.global_step, answer.gradients) == (29, 30, 30)
    assert answer.server_bytes == {"ps 0": 1024, "ps 1": 1024}

"""Groups that train: who is started, what they answer, who is named; really with TensorFlow too."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, trained
from busbw.driver.local import Worker
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.model.launch import Failure, LaunchId
from busbw.model.training import Net, TrainingAnswer, TrainingRequest, TrainingStrategy
from busbw.model.words import Capability
from busbw.workloads.training import checked
from tests import build
from tests.sweep import sweep
from tests.worker.backends.real import needs

from .processes import processes
from .watched import Watched

LONG_S = 120.0
SERVED = TrainingStrategy.PARAMETER_SERVER
LAUNCH = LaunchId.parse("1")

SINGLE = build.training_request(Net.PERCEPTRON)
SYNCHRONOUS = replace(SINGLE, ranks=2, servers=1)
ASYNCHRONOUS = replace(SYNCHRONOUS, strategy=SERVED)
MIRRORED = build.training_request(strategy=TrainingStrategy.MIRRORED, ranks=2)
WORKERS = build.training_request(strategy=TrainingStrategy.MULTI_WORKER_MIRRORED, ranks=2)


class Trainers:
    """Starts those that train with a framework, and knows who was started, by launch."""

    def __init__(self, bundle: Bundle, framework: str, script: str = "{}") -> None:
        self.started: dict[str, Worker] = {}
        self._executor = Executor(Watched(bundle, self._keep))
        self._starter = Starter(
            python=sys.executable,
            framework=framework,
            capability=Capability.TRAIN,
            defaults=FRAMEWORKS[framework].environment,
            environment={"BUSBW_FAKE": script},
            device="cpu",
        )

    def train(
        self, request: TrainingRequest, timeout_s: float = LONG_S
    ) -> TrainingAnswer | Failure:
        """What all their answers come to."""
        answers = trained(self._executor, self._starter, LAUNCH, request, timeout_s)
        return answers if isinstance(answers, Failure) else checked(request, answers)

    def _keep(self, worker: Worker, event: str) -> None:
        if event == "start":
            self.started[worker.launch.text] = worker


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (SINGLE, {"1.chief0"}),
        (ASYNCHRONOUS, {"1.chief0", "1.worker0", "1.worker1", "1.ps0"}),
        (SYNCHRONOUS, {"1.worker0", "1.worker1", "1.ps0"}),
        (MIRRORED, {"1.chief0"}),
        (WORKERS, {"1.worker0", "1.worker1"}),
    ],
    ids=["single", "asynchronous", "synchronous", "mirrored", "multi_worker_mirrored"],
)
def test_each_way_has_its_roles_and_one_answer(
    bundle: Bundle, request_: TrainingRequest, expected: set[str]
) -> None:
    trainers = Trainers(bundle, "fake")
    answer = trainers.train(request_)
    assert isinstance(answer, TrainingAnswer), answer
    assert set(trainers.started) == expected
    assert answer.gradients == 2 * answer.run.steps * request_.ranks
    assert not processes(bundle.path)


@pytest.mark.parametrize("request_", [ASYNCHRONOUS, SYNCHRONOUS], ids=["async", "sync"])
def test_every_member_knows_its_role_and_addresses(
    bundle: Bundle, request_: TrainingRequest
) -> None:
    trainers = Trainers(bundle, "fake", script='{"roles": {"worker 1": "kill"}}')
    failure = trainers.train(request_)
    assert isinstance(failure, Failure)
    assert failure.message.startswith("worker 1: the worker was killed (SIGKILL) while ")
    assert failure.launch.member == "worker1"
    assert not processes(bundle.path)


def test_an_interrupt_of_a_training_leaves_no_member(bundle: Bundle) -> None:
    def interrupted(worker: Worker, event: str) -> None:
        if event == "train":
            raise KeyboardInterrupt

    begin = Starter(python=sys.executable, framework="fake", capability=Capability.TRAIN)
    with pytest.raises(KeyboardInterrupt):
        trained(Executor(Watched(bundle, interrupted)), begin, LAUNCH, SYNCHRONOUS, LONG_S)
    assert not processes(bundle.path)


REAL = "tensorflow"


@needs(REAL)
def test_tensorflow_in_a_single_process_updates_as_often_as_it_should(bundle: Bundle) -> None:
    answer = Trainers(bundle, REAL).train(SINGLE)
    assert isinstance(answer, TrainingAnswer), (answer.message, answer.log)
    assert answer.gradients == answer.run.updates == answer.global_step == 20
    assert (answer.run.api, answer.server_bytes) == ("tf.function, no strategy", {})


@needs(REAL)
@pytest.mark.parametrize("request_", sweep([ASYNCHRONOUS, SYNCHRONOUS]), ids=["async", "sync"])
def test_tensorflow_updates_as_often_as_it_should_with_two_workers(
    bundle: Bundle, request_: TrainingRequest
) -> None:
    servers = 2 if request_ is SYNCHRONOUS else 1
    answer = Trainers(bundle, REAL).train(replace(request_, servers=servers))
    assert isinstance(answer, TrainingAnswer), (answer.message, answer.log)
    assert (answer.gradients, len(answer.run.epochs_s)) == (40, 2)
    assert answer.run.updates == answer.global_step == (20 if request_ is SYNCHRONOUS else 40)
    several = {"ps 0": 406532, "ps 1": 552}
    assert answer.server_bytes == (several if servers == 2 else {"ps 0": sum(several.values())})
    assert not processes(bundle.path)

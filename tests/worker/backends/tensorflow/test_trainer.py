"""A small net really trained under each strategy, in processes as the driver starts them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.group import Group
from busbw.driver.local import LocalTransport, Worker
from busbw.driver.transport import Request, Starter
from busbw.frameworks import FRAMEWORKS
from busbw.model.launch import Failure, LaunchId
from busbw.model.training import CNN_BYTES, Net, Role, TrainingAnswer, TrainingRequest, TrainingRun
from busbw.model.training import TrainingStrategy as Under
from busbw.model.words import Capability, FailureKind
from tests import build
from tests.driver.workers import processes, wait_until

from .. import real

pytestmark = [real.needs("tensorflow"), pytest.mark.exhaustive]

RANKS = 2
SMALL = build.training_request(strategy=Under.ONE_DEVICE, ranks=RANKS, batch=32, unseen=64)
STEPS = 7
LONG_S = 120.0

Answers = list[TrainingRun] | Failure


def _answers(
    training: TrainingRequest,
    bundle: Bundle,
    meanwhile: Callable[[Group], None] = lambda group: None,
) -> Answers:
    """What those that train say, in the order of their indices; `meanwhile` runs beside them."""
    starter = Starter(
        python=sys.executable,
        framework="tensorflow",
        capability=Capability.TRAIN,
        defaults=FRAMEWORKS["tensorflow"].environment,
        device="cpu",
    )
    request = Request("train", {"training": training})
    group = Group(LocalTransport(bundle), starter, LaunchId.parse("1"), training.cluster)
    try:
        failure = group.begin(LONG_S)
        if failure is not None:
            return failure
        beside = threading.Thread(target=meanwhile, args=(group,))
        beside.start()
        found = group.train(request, LONG_S)
        beside.join()
    finally:
        group.kill()
    if isinstance(found, Failure):
        return found
    answers = [answer for answer in found.values() if isinstance(answer, TrainingAnswer)]
    assert len(answers) == len(found)
    return [answer.run for answer in answers]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> TrainingRequest:
    """A training on few examples."""
    path = real.examples(tmp_path_factory.mktemp("examples") / "examples", STEPS * 32 + 64)
    return replace(SMALL, examples_path=str(path))


@pytest.fixture(scope="module")
def bundle() -> Iterator[Bundle]:
    """Removed at the end, when no worker of it may be left."""
    found = Bundle()
    yield found
    left = processes(found.path)
    found.remove()
    assert not left


@pytest.fixture(scope="module")
def train(small: TrainingRequest, bundle: Bundle) -> Callable[[Under], Answers]:
    """Trains under a strategy, once for all tests."""
    done: dict[Under, Answers] = {}

    def once(strategy: Under) -> Answers:
        ranks = 1 if strategy in OF_ONE_RANK else RANKS
        if strategy not in done:
            training = replace(small, strategy=strategy, ranks=ranks, servers=_servers(strategy))
            done[strategy] = _answers(training, bundle)
        return done[strategy]

    return once


def _servers(strategy: Under) -> int:
    return 1 if strategy is Under.PARAMETER_SERVER else 0


def _runs(found: Answers) -> list[TrainingRun]:
    assert not isinstance(found, Failure), (found.message, found.log)
    return found


HERE = [strategy for strategy in Under if strategy is not Under.TPU]
# Of two workers of a server one may add a gradient from many updates ago, so that no loss is sure;
# two of them train in the tests of the driver.
OF_ONE_RANK = (Under.ONE_DEVICE, Under.PARAMETER_SERVER)
MIRRORED = [Under.MIRRORED, Under.MULTI_WORKER_MIRRORED]


@pytest.mark.parametrize("strategy", HERE)
def test_every_copy_of_the_variables_sees_every_update_and_the_net_learns(
    train: Callable[[Under], Answers], strategy: Under
) -> None:
    for run in _runs(train(strategy)):
        assert (run.steps, run.updates) == (STEPS, 2 * STEPS)
        assert len(run.epochs_s) == 2
        assert 0 < run.compile_s < run.epochs_s[0]
        assert "tf.distribute" in run.api
        assert set(run.versions) == {"python", "numpy", "tensorflow"}
        # It learns: of ten classes, guessing is a tenth and ln 10.
        assert run.accuracy > 0.2
        assert run.loss < 2.3
    replicas = sum(run.replicas for run in _runs(train(strategy)))
    assert replicas == (1 if strategy in OF_ONE_RANK else RANKS)


@pytest.mark.parametrize("strategy", HERE[1:])
def test_every_strategy_learns_what_one_device_does_up_to_rounding(
    train: Callable[[Under], Answers], strategy: Under
) -> None:
    (alone,) = _runs(train(Under.ONE_DEVICE))
    for run in _runs(train(strategy)):
        assert run.loss == pytest.approx(alone.loss, rel=1e-3)
        assert run.accuracy == pytest.approx(alone.accuracy, abs=0.02)


@pytest.mark.parametrize("strategy", MIRRORED)
def test_all_ranks_have_the_same_weights_bit_for_bit(
    train: Callable[[Under], Answers], strategy: Under
) -> None:
    runs = _runs(train(strategy))
    for digests in ([run.first_digests for run in runs], [run.last_digests for run in runs]):
        joined = {name: digest for one in digests for name, digest in one.items()}
        assert len(joined) == RANKS
        assert len(set(joined.values())) == 1
    assert runs[0].first_digests != runs[0].last_digests
    names = [list(run.last_digests) for run in runs]
    several = [["worker 0, replica 0"], ["worker 1, replica 0"]]
    one = [["replica 0", "replica 1"]]
    assert names == (several if strategy is Under.MULTI_WORKER_MIRRORED else one)


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [
        (Under.ONE_DEVICE, {}),
        (Under.MIRRORED, {"CollectiveReduceV2": 2}),
        (Under.MULTI_WORKER_MIRRORED, {"CollectiveReduceV2": 1}),
        (Under.CENTRAL_STORAGE, {"AddN": 9}),
        (Under.PARAMETER_SERVER, {}),
    ],
)
def test_the_whole_gradient_is_added_up_by_the_strategys_own_operations(
    train: Callable[[Under], Answers], strategy: Under, kinds: dict[str, int]
) -> None:
    for run in _runs(train(strategy)):
        assert run.reductions == kinds
        assert run.reduced_bytes == (CNN_BYTES + 4 if kinds else None)


def test_without_a_tpu_its_strategy_says_so(train: Callable[[Under], Answers]) -> None:
    said = "chief 0: TPUStrategy needs a TPU, and TensorFlow sees none"
    real.refused(train(Under.TPU), FailureKind.UNAVAILABLE, said)


@pytest.mark.parametrize(
    ("strategy", "trainer", "victim"),
    [
        (Under.MULTI_WORKER_MIRRORED, "worker", Role(task="worker", index=1)),
        (Under.PARAMETER_SERVER, "chief", Role(task="ps")),
    ],
)
def test_a_member_that_is_killed_in_mid_epoch_fails_the_training(
    small: TrainingRequest, strategy: Under, trainer: str, victim: Role
) -> None:
    bundle = Bundle()

    def kill(group: Group) -> None:
        member = group.members[victim]
        assert isinstance(member, Worker)
        pid = member.pid
        log = bundle.log_path(f"1.{trainer}0.tensorflow")
        if wait_until(lambda: log.exists() and "epoch 2:" in log.read_text(), LONG_S):
            os.kill(pid, signal.SIGKILL)

    # One worker beside the chief and the server is enough to lose the server.
    ranks = 1 if strategy is Under.PARAMETER_SERVER else RANKS
    endless = replace(
        small, strategy=strategy, ranks=ranks, servers=_servers(strategy), epochs=100_000
    )
    found = _answers(endless, bundle, kill)
    left = processes(bundle.path)
    bundle.remove()
    said = f"{victim.name}: the worker was killed (SIGKILL) while training"
    real.refused(found, FailureKind.KILLED, said)
    assert not left


def test_damaged_examples_are_refused(small: TrainingRequest, bundle: Bundle) -> None:
    path = Path(f"{small.examples_path}.damaged")
    path.write_bytes(Path(small.examples_path).read_bytes()[:-1])
    found = _answers(replace(small, ranks=1, examples_path=str(path)), bundle)
    real.refused(found, FailureKind.UNAVAILABLE, "is damaged")


_NETS = """
from busbw.model.words import Capability, Device
from busbw.model.training import Net
real.prepare("tensorflow", Device.CPU, Capability.TRAIN)
import numpy as np
import tensorflow as tf
from busbw.worker.backends import training
from busbw.worker.backends.tensorflow import steps
from busbw.worker.backends.training import Examples
from tests import build

SHAPES = {Net.CNN: (4, 8, 8, 1), Net.PERCEPTRON: (4, 784)}
found = {}
for net, shape in SHAPES.items():
    start = training.starting_values(build.training_request(net))
    values = {name: 0 * value for name, value in start.items()}
    values["biases"][3] = 1
    kind = np.float32 if net is Net.CNN else np.uint8
    shown = Examples(np.ones(shape, kind), np.array([3, 3, 3, 1], np.int32))
    variables = {name: tf.Variable(value) for name, value in values.items()}
    gradients = steps.gradients_of(net, variables, shown.inputs, shown.labels)
    counter = float(gradients[list(values).index(training.COUNTER)])
    found[net.value] = [*steps.goodness(net, values, shown), counter]
say(found)
"""


@pytest.fixture(scope="module")
def nets() -> Mapping[str, list[float]]:
    """By net: accuracy, loss, and the gradient of the counter."""
    (answer,) = real.said(_NETS)
    return dict(answer)


@pytest.mark.parametrize("net", Net)
def test_accuracy_loss_and_the_gradient_of_the_counter_are_those_known(
    nets: Mapping[str, list[float]], net: Net
) -> None:
    accuracy, loss, counter = nets[net.value]
    assert (accuracy, counter) == (0.75, -1.0)
    # ln(9 + e) less the value of what is named, which is right three times out of four.
    assert loss == pytest.approx(2.4612 - 0.75, abs=1e-3)

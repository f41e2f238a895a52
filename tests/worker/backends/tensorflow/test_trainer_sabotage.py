"""Training under a strategy that is broken on purpose: found out, and never a time."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import Any

import pytest

from .. import real

pytestmark = [real.needs("tensorflow"), pytest.mark.exhaustive]

STEPS = 5

Trainings = Mapping[str, dict[str, Any]]

_LOST = """
        whole = steps.gradients_of
        def lost(net, variables, inputs, labels):
            context = tf.distribute.get_replica_context()
            kept = tf.cast(tf.equal(context.replica_id_in_sync_group, 0), tf.float32)
            return [kept * gradient for gradient in whole(net, variables, inputs, labels)]
        put(steps, "gradients_of", lost)
        """

# Each is done to a MirroredStrategy of two ranks; `put(owner, name, value)` lasts as long.
SABOTAGES = {
    "nothing": "",
    "a rank's gradient": _LOST,
    "a rank's gradient, later": _LOST
    + """
        put(training, "check_first", lambda *given: None)
        """,
    "a rank's examples": """
        shares = training.Course.batches
        put(training.Course, "batches", lambda self, epoch: (
            [one[0], one[0]] for one in shares(self, epoch)))
        whole = steps.SynchronousSteps.check_first
        def checked(self, copies):
            put(training.Course, "batches", shares)
            whole(self, copies)
        put(steps.SynchronousSteps, "check_first", checked)
        """,
    "no collective": """
        mirrored = tf.distribute.MirroredStrategy
        put(tf.distribute, "MirroredStrategy", lambda devices: mirrored(
            devices, cross_device_ops=tf.distribute.ReductionToOneDevice()))
        """,
    "fewer ranks": """
        found = proof.reductions
        put(proof, "reductions", lambda request, *given: found(
            dataclasses.replace(request, ranks=4), *given))
        """,
    "a part of the gradient": """
        put(proof, "GRADIENT_BYTES", proof.GRADIENT_BYTES + 4)
        """,
    "one rank's weights": """
        waited = steps.SynchronousSteps.wait
        def nudged(self):
            self._local(self.variables["biases"])[1].assign_add([1e-6] * 10)
            waited(self)
        put(steps.SynchronousSteps, "wait", nudged)
        """,
    "fewer replicas": """
        mirrored = tf.distribute.MirroredStrategy
        put(tf.distribute, "MirroredStrategy", lambda devices: mirrored(devices[:1]))
        """,
}

_SCRIPT = """
import dataclasses
from busbw import wire
from busbw.model.training import ClusterMember, Net, Role, TrainingRequest, TrainingStrategy
from busbw.model.words import Capability, Device
real.prepare("tensorflow", Device.CPU, Capability.TRAIN)
import tensorflow as tf
from busbw.worker.backends import load_trainer, training
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.tensorflow import proof, steps

request = TrainingRequest(
    net=Net.CNN, strategy=TrainingStrategy.MIRRORED, ranks=2, examples_path=sys.argv[1], epochs=2,
    batch=32, unseen=8,
)
for code in json.loads(sys.argv[2]):
    undone = []

    def put(owner, name, value):
        undone.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    exec(code)
    try:
        trainer = load_trainer("tensorflow", ClusterMember(role=Role(task="chief"), addresses={}))
        found = wire.to_json(trainer.train(request).run)
    except MeasuringError as error:
        found = {"kind": error.kind.value, "message": str(error)}
    for owner, name, value in reversed(undone):
        setattr(owner, name, value)
    say(found)
"""


@pytest.fixture(scope="module")
def sabotaged(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    """What comes of training after each of these, all in one process."""
    path = real.examples(tmp_path_factory.mktemp("examples") / "examples", STEPS * 32 + 8)
    codes = json.dumps([textwrap.dedent(code) for code in SABOTAGES.values()])
    found = real.said(_SCRIPT, str(path), codes)
    assert len(found) == len(SABOTAGES)
    return dict(zip(SABOTAGES, found))


def test_what_is_not_broken_is_right(sabotaged: Trainings) -> None:
    found = sabotaged["nothing"]
    assert found["updates"] == 2 * STEPS
    assert len(set(found["last_digests"].values())) == 1


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("a rank's gradient", "WRONG_RESULT", "the first update of"),
        ("a rank's examples", "WRONG_RESULT", "the first update of"),
        ("no collective", "NOT_A_COLLECTIVE", "TensorFlow put {'AddN': 9} into the graph"),
        ("fewer ranks", "NOT_A_COLLECTIVE", "is over 2 ranks, expected 4"),
        ("a part of the gradient", "NOT_A_COLLECTIVE", "expected 143664 of each rank"),
        ("fewer replicas", "WRONG_WORLD", "1 replicas take part, expected 2"),
    ],
)
def test_what_is_broken_is_a_failure(sabotaged: Trainings, name: str, kind: str, said: str) -> None:
    found = sabotaged[name]
    assert (found.get("kind"), said in found.get("message", "")) == (kind, True), found


def test_updates_without_a_rank_are_not_all_that_there_should_be(
    sabotaged: Trainings,
) -> None:
    # Half of each update is missing, and half of the steps remain.
    assert sabotaged["a rank's gradient, later"]["updates"] == STEPS


def test_a_rank_with_other_weights_has_another_digest(
    sabotaged: Trainings,
) -> None:
    digests = sabotaged["one rank's weights"]["last_digests"]
    assert digests["replica 0"] != digests["replica 1"]

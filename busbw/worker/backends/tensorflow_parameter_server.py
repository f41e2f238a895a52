"""TensorFlow with parameter servers: one process, asynchronous by TF 2's coordinator, or served.

Synchronous updates are in `tensorflow_between_graph`. A server never ends by itself: the driver
ends its process.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from busbw.model import ParameterServerRun, ParameterServerTraining, Updates
from busbw.worker import host

from . import (
    digits,
    perceptron,
    tensorflow_between_graph,
    tensorflow_server,
    tensorflow_versions,
)
from .tensorflow_net import Trained, loss, server_bytes
from .trainer import AbstractTrainer

_API = "tf.distribute.experimental.ParameterServerStrategy, ClusterCoordinator"


class TensorflowTrainer(AbstractTrainer[ParameterServerTraining, ParameterServerRun]):
    """A member with TensorFlow, whose role is in TF_CONFIG."""

    takes = ParameterServerTraining

    def __init__(self) -> None:
        tensorflow_versions.check()
        self._resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        self._server: Any = None

    def offer(self) -> None:
        """Listen at this process's own address."""
        self._server = tensorflow_server.started(self._resolver)

    def train(self, training: ParameterServerTraining) -> ParameterServerRun:
        """In this process alone, as the coordinator, or as one of the synchronous workers."""
        shown = digits.draw(training.examples, seed=training.seed)
        unseen = digits.draw(training.unseen, seed=training.seed + 1)
        if training.updates is Updates.SINGLE:
            done = _single(training, shown)
        elif training.updates is Updates.ASYNCHRONOUS:
            done = _asynchronous(training, shown, self._resolver)
        else:
            done = tensorflow_between_graph.train(training, shown, self._resolver, self._server)
        return ParameterServerRun(
            api=done.api,
            epochs_s=done.epochs_s,
            accuracy=perceptron.accuracy(done.values, unseen),
            gradients=done.gradients,
            global_step=done.global_step,
            updates=perceptron.updates(done.values),
            server_bytes=done.server_bytes,
            processor=host.cpu_model(),
            cores=host.cores(),
            versions={
                "python": platform.python_version(),
                "numpy": np.__version__,
                "tensorflow": tf.__version__,
            },
        )


_Variables = Mapping[str, Any]


def _single(training: ParameterServerTraining, shown: digits.Digits) -> Trained:
    """No strategy and no server: what the others are compared with."""
    variables, count = _variables(training)
    batches = iter(_dataset(training, shown))
    step = _step(variables, count, lambda function, arguments: function(*arguments))

    def epoch() -> None:
        for _ in range(training.batches):
            step(batches)
        variables[perceptron.COUNTER].numpy()

    return _trained("tf.function, no strategy", training, epoch, variables, count)


def _asynchronous(
    training: ParameterServerTraining, shown: digits.Digits, resolver: Any
) -> Trained:
    """An epoch is over when every worker's share of steps is done, whoever did it."""
    strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        variables, count = _variables(training)
    batches = iter(coordinator.create_per_worker_dataset(lambda: _dataset(training, shown)))
    step = _step(
        variables, count, lambda function, arguments: strategy.run(function, args=arguments)
    )

    def epoch() -> None:
        for _ in range(training.batches * training.workers):
            coordinator.schedule(step, args=(batches,))
        coordinator.join()

    return _trained(_API, training, epoch, variables, count)


def _variables(training: ParameterServerTraining) -> tuple[_Variables, Any]:
    """The net's variables, and a count of steps: what TF 1 calls the global step."""
    values = perceptron.starting_values(training)
    variables = {name: tf.Variable(value, name=name) for name, value in values.items()}
    return variables, tf.Variable(np.int64(0), name="global_step")


def _dataset(training: ParameterServerTraining, shown: digits.Digits) -> Any:
    """Batches without end, all examples in an order of their own in each epoch."""
    examples = tf.data.Dataset.from_tensor_slices((shown.images, shown.labels))
    return examples.shuffle(training.examples).repeat().batch(training.batch)


def _step(
    variables: _Variables, count: Any, run: Callable[[Any, tuple[Any, ...]], Any]
) -> Callable[[Any], Any]:
    """One batch's gradient, applied at once."""

    def replica(images: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            batch_loss = loss(variables, images, labels)
        gradients = tape.gradient(batch_loss, list(variables.values()))
        for variable, gradient in zip(variables.values(), gradients):
            variable.assign_sub(perceptron.LEARNING_RATE * gradient)
        count.assign_add(1)

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def step(batches: Any) -> None:
        run(replica, next(batches))

    return step  # type: ignore[no-any-return, unused-ignore]


def _trained(
    api: str,
    training: ParameterServerTraining,
    epoch: Callable[[], None],
    variables: _Variables,
    count: Any,
) -> Trained:
    epochs_s = []
    for number in range(1, training.epochs + 1):
        begun_s = time.perf_counter()
        epoch()
        epochs_s.append(time.perf_counter() - begun_s)
        print(f"epoch {number}: {epochs_s[-1]:.3f} s", flush=True)
    return Trained(
        api=api,
        epochs_s=tuple(epochs_s),
        gradients=training.steps * training.workers,
        global_step=int(count.numpy()),
        values={name: variable.numpy() for name, variable in variables.items()},
        server_bytes=server_bytes(variables),
    )

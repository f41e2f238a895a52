"""Steps under TF 2's ParameterServerStrategy: the coordinator hands them out, each its own update.

The variables are on servers; workers, which run the steps, and servers are other processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from . import tensorflow_cnn
from .examples import Course, Examples
from .tensorflow_reductions import Reductions
from .tensorflow_strategy_steps import AbstractSteps, Values, variables_of


class ServerSteps(AbstractSteps):
    """Whichever worker is free takes the next share of a batch; an epoch ends when all are done."""

    api = (
        "tf.distribute.ParameterServerStrategy: "
        "tf.distribute.coordinator.ClusterCoordinator, schedule, join"
    )

    def __init__(self, course: Course, resolver: Any) -> None:
        self._course = course
        self.replicas = self.local_replicas = resolver.cluster_spec().num_tasks("worker")
        self._strategy = tf.distribute.ParameterServerStrategy(resolver)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        with self._strategy.scope():
            self._variables = variables_of(course.training)
        self._step = tf.function(self._one_share, autograph=False)

    def prepared(self, epoch: int) -> list[list[Examples]]:
        """Shares on the host: which worker takes one, is not known before."""
        return [
            [Examples(tf.constant(one.inputs), tf.constant(one.labels)) for one in shares]
            for shares in self._course.batches(epoch)
        ]

    def first(self, batch: Sequence[Examples]) -> Reductions:
        """Nothing is added up: each share's gradient is applied by itself."""
        self.step(batch)
        self.wait()
        return Reductions()

    def step(self, batch: Sequence[Examples]) -> None:
        """Hand out the shares of all ranks."""
        for share in batch:
            self._coordinator.schedule(self._step, args=(share.inputs, share.labels))

    def wait(self) -> None:
        """Until whoever took a share has applied its gradient."""
        self._coordinator.join()

    def check_first(self, copies: Mapping[str, Values]) -> None:
        """What a share's gradient is depends on who was first: there is nothing to compare."""

    def copies(self) -> dict[str, Values]:
        """Those on the servers."""
        return {"all": {name: variable.numpy() for name, variable in self._variables.items()}}

    def _one_share(self, inputs: Any, labels: Any) -> None:
        self._strategy.run(self._replica, args=(inputs, labels))

    def _replica(self, inputs: Any, labels: Any) -> None:
        gradients = tensorflow_cnn.gradients(self._variables, inputs, labels)
        for variable, gradient in zip(self._variables.values(), gradients):
            variable.assign_sub(self._course.training.rate * gradient)

"""Synchronous updates by TF 1's route: a graph in each worker, variables on servers, one update.

Through `tf.compat.v1` alone: TF 2's ParameterServerStrategy has asynchronous updates only. Each
gradient that a worker hands in is paid with one token of the next step, and none is there at the
beginning, so that no worker is a step ahead and no gradient is stale and dropped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from busbw.model import ParameterServerTraining

from . import perceptron
from .digits import SIDE, Digits
from .tensorflow_net import Trained, loss, server_bytes

_API = "tf.compat.v1: between-graph replication, SyncReplicasOptimizer"
_POLL_S = 0.2
_START_S = 120


def train(training: ParameterServerTraining, shown: Digits, resolver: Any, server: Any) -> Trained:
    """As worker `resolver.task_id`; worker 0 makes the variables and averages the gradients."""
    index = resolver.task_id
    with tf.Graph().as_default():
        graph = _Graph(training, resolver)
        session = graph.session(server.target, chief=index == 0)
        if index == 0:
            runner = graph.optimizer.get_chief_queue_runner()
            runner.create_threads(session, tf.compat.v1.train.Coordinator(), start=True)
        batches = _batches(training, shown, index)
        epochs_s: list[float] = []
        gradients = 0
        begun_s = time.perf_counter()
        token = 0
        # A fast worker may hand in a slow one's gradient: who is done is told by the step.
        while token < training.steps:
            images, labels = next(batches)
            token = session.run(graph.step, {graph.images: images, graph.labels: labels})
            gradients += 1
            while token >= training.batches * (len(epochs_s) + 1):
                now_s = time.perf_counter()
                epochs_s.append(now_s - begun_s)
                print(f"epoch {len(epochs_s)}: {epochs_s[-1]:.3f} s", flush=True)
                begun_s = now_s
        values, global_step = session.run((graph.variables, graph.global_step))
        return Trained(
            api=_API,
            epochs_s=tuple(epochs_s),
            gradients=gradients,
            global_step=int(global_step),
            values=values,
            server_bytes=server_bytes(graph.variables),
        )


class _Graph:
    """One worker's graph. The value of `step` is the token: how many updates there were."""

    def __init__(self, training: ParameterServerTraining, resolver: Any) -> None:
        v1 = tf.compat.v1
        device = f"/job:worker/task:{resolver.task_id}"
        placed = v1.train.replica_device_setter(
            worker_device=device, cluster=resolver.cluster_spec()
        )
        with v1.device(placed):
            self.variables = {
                name: v1.get_variable(name, initializer=value, use_resource=True)
                for name, value in perceptron.starting_values(training).items()
            }
            self.global_step = v1.train.get_or_create_global_step()
            self.images = v1.placeholder(tf.uint8, [None, SIDE * SIDE])
            self.labels = v1.placeholder(tf.int32, [None])
            self.optimizer = v1.train.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(perceptron.LEARNING_RATE),
                replicas_to_aggregate=training.workers,
                total_num_replicas=training.workers,
            )
            batch_loss = loss(self.variables, self.images, self.labels)
            self.step = self.optimizer.minimize(batch_loss, global_step=self.global_step)

    def session(self, target: str, *, chief: bool) -> Any:
        """Connected to all, the variables made by the chief."""
        v1 = tf.compat.v1
        local = self.optimizer.chief_init_op if chief else self.optimizer.local_step_init_op
        initial = v1.global_variables_initializer()
        manager = v1.train.SessionManager(
            ready_op=v1.report_uninitialized_variables(),
            local_init_op=local,
            ready_for_local_init_op=self.optimizer.ready_for_local_init_op,
            recovery_wait_secs=_POLL_S,
        )
        if chief:
            return manager.prepare_session(target, init_op=initial)
        return manager.wait_for_session(target, max_wait_secs=_START_S)


def _batches(
    training: ParameterServerTraining, shown: Digits, index: int
) -> Iterator[tuple[Any, Any]]:
    """Batches without end, all examples in an order of this worker's own in each epoch."""
    generator = np.random.default_rng([training.seed, index])
    while True:
        order = generator.permutation(training.examples)
        for at in range(training.batches):
            chosen = order[at * training.batch : (at + 1) * training.batch]
            yield shown.images[chosen], shown.labels[chosen]

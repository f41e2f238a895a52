"""Synchronous updates by TF 1's route: a graph in each worker, variables on servers, one update.

Through `tf.compat.v1` alone: TF 2's ParameterServerStrategy has asynchronous updates only. Each
gradient that a worker hands in is paid with one token of the next step, and none is there at the
beginning, so that no worker is a step ahead and no gradient is stale and dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from .. import training
from ..training import Course, Examples
from . import layers
from .proof import Reductions
from .steps import AbstractSteps, Values

_POLL_S = 0.2
_START_S = 120


class BetweenGraphSteps(AbstractSteps):
    """One worker's; worker 0 makes the variables and averages the gradients.

    The value of a step is the token: how many updates there were.
    """

    api = "tf.compat.v1: between-graph replication, SyncReplicasOptimizer"

    def __init__(self, course: Course, resolver: Any, server: Any) -> None:
        self._course = course
        self._batches = course.batches_of(resolver.task_id)
        self._token = 0
        self.replicas = resolver.cluster_spec().num_tasks("worker")
        self.local_replicas = 1
        with tf.Graph().as_default():
            self._build(resolver)
            self._session = self._connected(server.target, chief=resolver.task_id == 0)

    def _build(self, resolver: Any) -> None:
        """The graph, its variables handed out to the servers in turn."""
        v1, request, shown = tf.compat.v1, self._course.request, self._course.shown
        device = f"/job:worker/task:{resolver.task_id}"
        placed = v1.train.replica_device_setter(
            worker_device=device, cluster=resolver.cluster_spec()
        )
        with v1.device(placed):
            self.variables = {
                name: v1.get_variable(name, initializer=value, use_resource=True)
                for name, value in training.starting_values(request).items()
            }
            self._count = v1.train.get_or_create_global_step()
            self._inputs = v1.placeholder(shown.inputs.dtype, [None, *shown.inputs.shape[1:]])
            self._labels = v1.placeholder(shown.labels.dtype, [None])
            self._optimizer = v1.train.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(request.rate),
                replicas_to_aggregate=self.replicas,
                total_num_replicas=self.replicas,
            )
            loss = layers.loss(request.net, self.variables, self._inputs, self._labels)
            self._step = self._optimizer.minimize(loss, global_step=self._count)

    def _connected(self, target: str, *, chief: bool) -> Any:
        """A session with all the others, the variables made by the chief."""
        v1, optimizer = tf.compat.v1, self._optimizer
        initial = v1.global_variables_initializer()
        manager = v1.train.SessionManager(
            ready_op=v1.report_uninitialized_variables(),
            local_init_op=optimizer.chief_init_op if chief else optimizer.local_step_init_op,
            ready_for_local_init_op=optimizer.ready_for_local_init_op,
            recovery_wait_secs=_POLL_S,
        )
        if not chief:
            return manager.wait_for_session(target, max_wait_secs=_START_S)
        session = manager.prepare_session(target, init_op=initial)
        runner = optimizer.get_chief_queue_runner()
        runner.create_threads(session, v1.train.Coordinator(), start=True)
        return session

    def prepared(self, epoch: int) -> Iterator[Examples]:
        """Until the epoch's updates are done: a fast worker may hand in a slow one's gradient."""
        while self._token < self._course.steps * (epoch + 1):
            yield next(self._batches)

    def first(self, batch: Examples) -> Reductions:
        """As all others: gradients are added up on a server, one by one."""
        self.step(batch)
        return Reductions()

    def step(self, batch: Examples) -> None:
        """Hand in a gradient, and wait for a token of the next step."""
        given = {self._inputs: batch.inputs, self._labels: batch.labels}
        self._token = self._session.run(self._step, given)

    def wait(self) -> None:
        """A token is there when its update is done."""

    def check_first(self, copies: Mapping[str, Values]) -> None:
        """Others may be a step further: there is nothing to compare."""

    def copies(self) -> dict[str, Values]:
        """Those on the servers."""
        values, global_step = self._session.run((self.variables, self._count))
        self.global_step = int(global_step)
        return {"all": values}

"""TensorFlow as a member of a group that trains: its server, its strategy, and its answer.

One training per process: its devices are set up before anything else runs. Epochs and the steps of
TF 2 are in `steps`. Synchronous updates by servers are here, with the member whose server they
need, and use `tf.compat.v1`: TF 2's ParameterServerStrategy has asynchronous ones only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from busbw.model.training import (
    ClusterMember,
    TrainingAnswer,
    TrainingRequest,
    TrainingRun,
    TrainingStrategy,
    Updates,
)
from busbw.worker import host

from .. import training
from ..base import AbstractTrainer, unavailable, wrong_world
from ..framework import package_versions
from .backend import multi_worker_strategy, resolver_of, split_cpu
from .steps import (
    AbstractSteps,
    SeparateSteps,
    SynchronousSteps,
    Values,
    digests,
    goodness,
    loss_of,
    trained,
)

# A peer that is alive and does not take part would be waited for without end.
_COLLECTIVE_TIMEOUT_S = 60

# How often a worker looks whether worker 0 has made the variables, and for how long.
_POLL_S = 0.2
_START_S = 120


class TensorflowTrainer(AbstractTrainer):
    """A member with TensorFlow, which gets its role and addresses by TF_CONFIG."""

    def __init__(self, member: ClusterMember) -> None:
        self._resolver = resolver_of(member)
        self._server: Any = None

    def offer(self) -> None:
        """Listen at this process's own address; the driver ends the process, nothing else does."""
        cluster = self._resolver.cluster_spec()
        options = tf.compat.v1.ConfigProto()
        # Else all threads may wait for other members, where there are fewer cores than those.
        options.inter_op_parallelism_threads = max(host.cores(), cluster.num_tasks("worker") + 1)
        try:
            self._server = tf.distribute.Server(
                cluster,
                job_name=self._resolver.task_type,
                task_index=self._resolver.task_id,
                protocol="grpc",
                config=options,
            )
        except tf.errors.OpError as error:
            raise unavailable(str(error)) from error

    def train(self, request: TrainingRequest) -> TrainingAnswer:
        course = training.course(request)
        steps = self._steps(course)
        if steps.replicas != request.ranks:
            raise wrong_world(f"{steps.replicas} replicas take part, expected {request.ranks}")
        done = trained(request, steps)
        values = next(iter(done.copies.values()))
        accuracy, loss = goodness(request.net, values, course.unseen)
        run = TrainingRun(
            api=steps.api,
            epochs_s=done.epochs_s,
            steps=course.steps,
            accuracy=accuracy,
            loss=loss,
            updates=training.updates(done.copies, request.rate),
            first_digests=done.first_digests,
            last_digests=digests(done.copies),
            compile_s=done.compile_s,
            framework_path=os.path.dirname(tf.__file__),
            versions=package_versions(tensorflow=tf.__version__),
            reductions=done.reductions.kinds,
            reduced_bytes=done.reductions.reduced_bytes,
            replicas=steps.local_replicas,
        )
        return TrainingAnswer(
            run=run,
            gradients=done.gradients,
            processor=host.cpu_model(),
            cores=host.cores(),
            global_step=steps.global_step,
            server_bytes=_server_bytes(steps.variables),
        )

    def _steps(self, course: training.Course) -> AbstractSteps:
        """Raises MeasuringError UNAVAILABLE where its devices are not there."""
        request = course.request
        if request.strategy is None and request.updates is Updates.SINGLE:
            return SeparateSteps(course)
        if request.strategy is None:
            return BetweenGraphSteps(course, self._resolver, self._server)
        if request.strategy is TrainingStrategy.PARAMETER_SERVER:
            return SeparateSteps(course, self._resolver)
        strategy, api = _strategy(request, self._resolver)
        several = request.strategy is TrainingStrategy.MULTI_WORKER_MIRRORED
        worker = self._resolver.task_id if several else None
        return SynchronousSteps(course, strategy, api=f"tf.distribute.{api}", worker=worker)


def _server_bytes(variables: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for variable in variables.values():
        device = tf.DeviceSpec.from_string(variable.device)
        if device.job == "ps":
            name = f"{device.job} {device.task}"
            found[name] = found.get(name, 0) + variable.shape.num_elements() * variable.dtype.size
    return found


def _strategy(request: TrainingRequest, resolver: Any) -> tuple[Any, str]:
    if request.strategy is TrainingStrategy.MULTI_WORKER_MIRRORED:
        return _multi_worker(request, resolver), "MultiWorkerMirroredStrategy"
    if request.strategy is TrainingStrategy.TPU:
        return _tpu(), "TPUStrategy"
    devices = _devices(request)
    if request.strategy is TrainingStrategy.ONE_DEVICE:
        return tf.distribute.OneDeviceStrategy(devices[0]), "OneDeviceStrategy"
    if request.strategy is TrainingStrategy.MIRRORED:
        return tf.distribute.MirroredStrategy(devices), "MirroredStrategy"
    central = tf.distribute.experimental.CentralStorageStrategy(
        compute_devices=devices, parameter_device="/cpu:0"
    )
    return central, "experimental.CentralStorageStrategy"


def _multi_worker(request: TrainingRequest, resolver: Any) -> Any:
    """One rank in this process, on its own device; it must be made before anything runs."""
    index, on_gpu = resolver.task_id, request.device == "gpu"
    if on_gpu:
        there = tf.config.list_physical_devices("GPU")
        if index >= len(there):
            raise unavailable(f"worker {index} has no GPU: TensorFlow sees {len(there)}")
        tf.config.set_visible_devices(there[index], "GPU")
    return multi_worker_strategy(resolver, on_gpu=on_gpu, timeout_s=_COLLECTIVE_TIMEOUT_S)


def _tpu() -> Any:
    if not tf.config.list_physical_devices("TPU_SYSTEM"):
        raise unavailable("TPUStrategy needs a TPU, and TensorFlow sees none")
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _devices(request: TrainingRequest) -> list[str]:
    if request.device == "cpu":
        split_cpu(request.ranks)
    kind = request.device.upper()
    found = [one.name for one in tf.config.list_logical_devices(kind)]
    if len(found) < request.ranks:
        raise unavailable(f"{request.ranks} ranks asked for, TensorFlow sees {len(found)} {kind}")
    return found[: request.ranks]


class BetweenGraphSteps(AbstractSteps):
    """Steps of one worker as in TF 1: a graph in each worker, variables on servers, one update.

    Worker 0 makes the variables and averages the gradients. Each gradient that a worker hands in is
    paid with one token of the next step, and none is there at the beginning, so that no worker is a
    step ahead and no gradient is stale and dropped. The value of a step is the token: how many
    updates there were.
    """

    api = "tf.compat.v1: between-graph replication, SyncReplicasOptimizer"

    def __init__(self, course: training.Course, resolver: Any, server: Any) -> None:
        self._course = course
        self._batches = course.batches_of(resolver.task_id)
        self._token = 0
        self.replicas = resolver.cluster_spec().num_tasks("worker")
        self.local_replicas = 1
        with tf.Graph().as_default():
            self._build(resolver)
            self._session = self._connected(server.target, chief=resolver.task_id == 0)

    def _build(self, resolver: Any) -> None:
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
            loss = loss_of(request.net, self.variables, self._inputs, self._labels)
            self._step = self._optimizer.minimize(loss, global_step=self._count)

    def _connected(self, target: str, *, chief: bool) -> Any:
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

    def prepared(self, epoch: int) -> Iterator[training.Examples]:
        """Until the epoch's updates are done: a fast worker may hand in a slow one's gradient."""
        while self._token < self._course.steps * (epoch + 1):
            yield next(self._batches)

    def step(self, batch: training.Examples) -> None:
        given = {self._inputs: batch.inputs, self._labels: batch.labels}
        self._token = self._session.run(self._step, given)

    def wait(self) -> None:
        """A token is there when its update is done."""

    def copies(self) -> dict[str, Values]:
        values, global_step = self._session.run((self.variables, self._count))
        self.global_step = int(global_step)
        return {"all": values}

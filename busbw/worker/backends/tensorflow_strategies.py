"""TensorFlow's strategies as they train a convolutional net: each made, used once, and checked.

One training a process: its devices are laid out for it, before anything else runs. Steps are in
`tensorflow_strategy_steps` and `tensorflow_strategy_servers`.
"""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np
import tensorflow as tf

from busbw.model import FailureKind, StrategyRun, StrategyTraining, TrainingStrategy

from . import convolutional, examples, tensorflow_cnn, tensorflow_server, tensorflow_versions
from .base import MeasuringError
from .tensorflow_strategy_servers import ServerSteps
from .tensorflow_strategy_steps import AbstractSteps, SynchronousSteps, digests, trained
from .trainer import AbstractTrainer

# A peer that is alive and does not take part would be waited for without end.
_COLLECTIVE_TIMEOUT_S = 60


class TensorflowStrategyTrainer(AbstractTrainer[StrategyTraining, StrategyRun]):
    """A member with TensorFlow, whose role is in TF_CONFIG."""

    takes = StrategyTraining

    def __init__(self) -> None:
        tensorflow_versions.check()
        self._resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        self._server: Any = None

    def offer(self) -> None:
        """Listen at this process's own address, as a worker or a server of the coordinator's."""
        self._server = tensorflow_server.started(self._resolver)

    def train(self, training: StrategyTraining) -> StrategyRun:
        """Every epoch, under the strategy asked for; its replicas are as many as the ranks."""
        course = examples.course(training)
        steps = _steps(course, self._resolver)
        if steps.replicas != training.ranks:
            raise MeasuringError(
                FailureKind.WRONG_WORLD,
                f"{steps.replicas} replicas take part, expected {training.ranks}",
            )
        done = trained(training, steps)
        accuracy, loss = tensorflow_cnn.goodness(next(iter(done.copies.values())), course.unseen)
        return StrategyRun(
            api=steps.api,
            epochs_s=done.epochs_s,
            steps=course.steps,
            accuracy=accuracy,
            loss=loss,
            updates=convolutional.updates(done.copies, training.rate),
            first_digests=done.first_digests,
            last_digests=digests(done.copies),
            compile_s=done.compile_s,
            framework_path=os.path.dirname(tf.__file__),
            versions={
                "python": platform.python_version(),
                "numpy": np.__version__,
                "tensorflow": tf.__version__,
            },
            reductions=done.reductions.kinds,
            reduced_bytes=done.reductions.reduced_bytes,
            replicas=steps.local_replicas,
        )


def _steps(course: examples.Course, resolver: Any) -> AbstractSteps:
    """Of the strategy that `course.training` names.

    Raises MeasuringError UNAVAILABLE where its devices are not there.
    """
    training = course.training
    if training.strategy is TrainingStrategy.PARAMETER_SERVER:
        return ServerSteps(course, resolver)
    if training.strategy is TrainingStrategy.MULTI_WORKER_MIRRORED:
        return _multi_worker(course, resolver)
    if training.strategy is TrainingStrategy.TPU:
        return SynchronousSteps(course, _tpu(), api="tf.distribute.TPUStrategy")
    devices = _devices(training)
    if training.strategy is TrainingStrategy.ONE_DEVICE:
        one = tf.distribute.OneDeviceStrategy(devices[0])
        return SynchronousSteps(course, one, api="tf.distribute.OneDeviceStrategy")
    if training.strategy is TrainingStrategy.MIRRORED:
        mirrored = tf.distribute.MirroredStrategy(devices)
        return SynchronousSteps(course, mirrored, api="tf.distribute.MirroredStrategy")
    central = tf.distribute.experimental.CentralStorageStrategy(
        compute_devices=devices, parameter_device="/cpu:0"
    )
    api = "tf.distribute.experimental.CentralStorageStrategy"
    return SynchronousSteps(course, central, api=api)


def _multi_worker(course: examples.Course, resolver: Any) -> SynchronousSteps:
    """One rank in this process, on a device of its own; it must be made before anything runs."""
    index = resolver.task_id
    on_gpu = course.training.device == "gpu"
    if on_gpu:
        there = tf.config.list_physical_devices("GPU")
        if index >= len(there):
            raise _unavailable(f"worker {index} has no GPU: TensorFlow sees {len(there)}")
        tf.config.set_visible_devices(there[index], "GPU")
    kinds = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=kinds.NCCL if on_gpu else kinds.RING, timeout_seconds=_COLLECTIVE_TIMEOUT_S
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
    return SynchronousSteps(
        course,
        strategy,
        api="tf.distribute.MultiWorkerMirroredStrategy",
        place=f"worker {index}, ",
        first_rank=index,
    )


def _tpu() -> Any:
    if not tf.config.list_physical_devices("TPU_SYSTEM"):
        raise _unavailable("TPUStrategy needs a TPU, and TensorFlow sees none")
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _devices(training: StrategyTraining) -> list[str]:
    """A device for each rank: virtual ones on the CPU, else the GPUs that there are."""
    if training.device == "cpu":
        cpu = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration() for _ in range(training.ranks)]
        tf.config.set_logical_device_configuration(cpu, logical)
    kind = training.device.upper()
    found = [one.name for one in tf.config.list_logical_devices(kind)]
    if len(found) < training.ranks:
        raise _unavailable(f"{training.ranks} ranks asked for, TensorFlow sees {len(found)} {kind}")
    return found[: training.ranks]


def _unavailable(message: str) -> MeasuringError:
    return MeasuringError(FailureKind.UNAVAILABLE, message)

"""A member of a group; its strategy must be made before anything else runs in TensorFlow."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from busbw.model.training import ClusterMember
from busbw.model.words import Device

from ..base import unavailable


def resolver_of(member: ClusterMember) -> Any:
    """TensorFlow's own resolver, by TF_CONFIG, which this sets."""
    cluster = {task: list(found) for task, found in member.addresses.items()}
    task = {"type": member.role.task, "index": member.role.index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    return tf.distribute.cluster_resolver.TFConfigClusterResolver()


def refusal(device: Device | None, own: int) -> str:
    """Why a process cannot have `own` ranks beside other processes; else empty."""
    if _on_gpus(device) or own == 1:
        return ""
    return f"TensorFlow has one rank in each of several processes on a CPU, {own} are asked for"


def _on_gpus(device: Device | None) -> bool:
    return device is Device.GPU or (device is None and bool(tf.config.list_physical_devices("GPU")))


def joined(member: ClusterMember, device: Device | None, own: int) -> Any:
    """A MultiWorkerMirroredStrategy over all members with `own` ranks in each: RING, or NCCL.

    Without a time-out of its own, for which TensorFlow would start a thread for each collective.
    Raises MeasuringError UNAVAILABLE where there are too few devices, or the others do not come.
    """
    on_gpu = _on_gpus(device)
    if on_gpu:
        first = own * (member.role.index % member.on_host)
        found = tf.config.list_physical_devices("GPU")
        if first + own > len(found):
            raise unavailable(
                f"process {member.role.index} needs {first + own} GPUs, TensorFlow sees "
                f"{len(found)}"
            )
        tf.config.set_visible_devices(found[first : first + own], "GPU")
    kinds = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=kinds.NCCL if on_gpu else kinds.RING
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver_of(member), options)
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        words = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise unavailable(
            f"process {member.role.index} does not join its group: {words}"
        ) from error


class Exchange:
    """Words of every process to every process, by `strategy`, whose ranks are `each` in one."""

    def __init__(self, strategy: Any, each: int) -> None:
        self._strategy, self._each = strategy, each
        self._gather = tf.function(self._gathered, autograph=False, reduce_retracing=True)

    def __call__(self, words: Sequence[int]) -> list[list[int]]:
        every = self._gather(tf.constant([words], tf.int64))
        rows: list[list[int]] = self._strategy.experimental_local_results(every)[0].numpy().tolist()
        # Every rank of a process has handed in the same.
        return rows[:: self._each]

    def _gathered(self, row: Any) -> Any:
        def of_replica() -> Any:
            # Of an argument itself TensorFlow does not know on which device it is.
            return tf.distribute.get_replica_context().all_gather(tf.identity(row), axis=0)

        return self._strategy.run(of_replica)

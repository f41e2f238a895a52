"""The replicas of a strategy of `tf.distribute`: values laid out on them, waited for and read.

What runs on them, and how long it takes, is none of this room's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from busbw.model import FailureKind

from ..base import MeasuringError


def make_strategy(name: str, devices: Sequence[str]) -> Any:
    """The strategy of `tf.distribute` that bears our `name`, over `devices`."""
    if name == "tpu":
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        return tf.distribute.TPUStrategy(resolver)
    operations = {
        "nccl": tf.distribute.NcclAllReduce,
        "reduction_to_one_device": tf.distribute.ReductionToOneDevice,
        "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
    }
    chosen = operations[name]() if name in operations else None
    return tf.distribute.MirroredStrategy(list(devices), cross_device_ops=chosen)


class Replicas:
    """The replicas of `strategy`, one for each of `ranks`.

    Raises MeasuringError WRONG_WORLD where they are not as many.
    """

    def __init__(self, strategy: Any, ranks: int) -> None:
        there = int(strategy.num_replicas_in_sync)
        if there != ranks:
            raise MeasuringError(
                FailureKind.WRONG_WORLD, f"{there} replicas take part, expected {ranks}"
            )
        self._strategy = strategy
        self._devices: list[str] = list(strategy.extended.worker_devices)
        self._gpus = [name for name in self._devices if "GPU" in name]

    def laid_out(self, made: Callable[[int], Any]) -> Any:
        """`made(rank)` of each rank, on its own device, once they are there."""

        def of_replica(context: Any) -> Any:
            rank = context.replica_id_in_sync_group
            with tf.device(self._devices[rank]):
                return made(rank)

        values = self._strategy.experimental_distribute_values_from_function(of_replica)
        self.wait(values)
        return values

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function` of each replica's own values."""
        return self._strategy.run(function, args=arguments)

    def chained(self, one: Callable[[Any], Any], turns: Any, start: Any) -> tuple[Any, Any]:
        """`one` of `start`, then of what came out: the rounds counted, and the last result.

        TensorFlow allows no all-reduce in a loop inside the replica function: it is around it.
        """
        counted, result = tf.while_loop(
            lambda turn, _: turn < turns,
            lambda turn, held: (turn + 1, one(held)),
            (tf.constant(0), start),
            parallel_iterations=1,
        )
        return counted, result

    def of(self, values: Any) -> list[Any]:
        """Every rank's own."""
        found: list[Any] = list(self._strategy.experimental_local_results(values))
        return found

    def wait(self, values: Any) -> None:
        """Until every rank's values are there: `_numpy` waits and copies nothing on the CPU."""
        for value in self.of(values):
            if "CPU" in value.backing_device:
                value._numpy()
            else:
                value[:1].numpy()

    def readable(self, values: Any) -> list[Any]:
        """Every rank's own to be read as an array, uncopied on the CPU."""
        return [
            value._numpy() if "CPU" in value.backing_device else value for value in self.of(values)
        ]

    def begin_peak(self) -> None:
        """Count the peaks of GPUs anew."""
        for name in self._gpus:
            tf.config.experimental.reset_memory_stats(name)

    def peak_bytes(self) -> int | None:
        """The highest use of any GPU since `begin_peak`; None where there is none."""
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in self._gpus]
        return max(peaks, default=None)

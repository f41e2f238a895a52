"""What programs on the replicas of a `tf.distribute` strategy share: traced once, then called."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow as tf

from busbw.model.case import Case

from ..base import wrong_world
from ..framework import AbstractChain, AbstractValues
from . import proof


def make_strategy(name: str, devices: Sequence[str]) -> Any:
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
    """One for each of `ranks`. Raises MeasuringError WRONG_WORLD where they are not as many."""

    def __init__(self, strategy: Any, ranks: int) -> None:
        there = int(strategy.num_replicas_in_sync)
        if there != ranks:
            raise wrong_world(f"{there} replicas take part, expected {ranks}")
        self._strategy = strategy
        self._devices: list[str] = list(strategy.extended.worker_devices)
        # Of several processes each has ranks of its own, in the order of their indices.
        own, resolver = len(self._devices), strategy.cluster_resolver
        self.first = own * resolver.task_id if own < ranks else 0
        self.own = range(self.first, self.first + own)
        self._gpus = [name for name in self._devices if "GPU" in name]

    def laid_out(self, made: Callable[[int], Any]) -> Any:
        def of_replica(context: Any) -> Any:
            rank = context.replica_id_in_sync_group
            with tf.device(self._devices[rank - self.first]):
                return made(rank)

        values = self._strategy.experimental_distribute_values_from_function(of_replica)
        self.wait(values)
        # What a single replica returns is no group of values either, and goes in again.
        return values if len(self._devices) > 1 else self.of(values)[0]

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._strategy.run(function, args=arguments)

    def chained(self, one: Callable[[Any], Any], turns: Any, start: Any) -> tuple[Any, Any]:
        """TensorFlow allows no all-reduce in a loop inside the replica function."""
        counted, result = tf.while_loop(
            lambda turn, _: turn < turns,
            lambda turn, held: (turn + 1, one(held)),
            (tf.constant(0), start),
            parallel_iterations=1,
        )
        return counted, result

    def of(self, values: Any) -> list[Any]:
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
        for name in self._gpus:
            tf.config.experimental.reset_memory_stats(name)

    def peak_bytes(self) -> int | None:
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in self._gpus]
        return max(peaks, default=None)


class TensorflowProgram(AbstractChain):
    """A chain as one `tf.function`, traced once for the case's shape.

    A call passes its arguments to their devices only if there is a round that needs them, which
    takes as long as half a round (observed): so a chain of one is the shortest to count from.
    """

    step = 1
    shortest = 1
    _call: Any

    def __init__(self, case: Case, strategy: Any, values: AbstractValues) -> None:
        self._replicas = Replicas(strategy, case.ranks)
        super().__init__(case, values)
        self._replicas.begin_peak()
        self._start: Any = None
        self._batch: tuple[Any, ...] = ()

    @final
    def _trace(self, chain: Callable[..., tuple[Any, Any]], *batch: Any) -> None:
        self._batch = batch
        self.fresh()
        with self._compiling():
            traced = tf.function(chain, autograph=False)
            self._call = traced.get_concrete_function(self._start, *batch, tf.constant(1))
            executed = proof.executed_graphs(lambda: self.run(0))
        own = len(self._replicas.own)
        self.proof = proof.prove(self._case, executed, self._call.graph, own)

    @final
    def release(self) -> None:
        self._start = self._result = self._call = None
        self._batch = ()

    @final
    def device_peak_bytes(self) -> int | None:
        return self._replicas.peak_bytes()

    @final
    def _lay_out(self, number: int) -> None:
        self._start = None
        self._start = self._replicas.laid_out(lambda rank: self._values_of_rank(rank, number))

    @final
    def _called(self, iterations: int) -> tuple[Any, Any]:
        """From the starting values: a result is on another device, and would take another graph."""
        counted, result = self._call(self._start, *self._batch, tf.constant(iterations))
        self._replicas.wait(result)
        return counted, result

    @final
    def _compared(self, number: int, iterations: int) -> int:
        results = dict(zip(self._replicas.own, self._replicas.readable(self._result)))
        return self._values.check_all(number, iterations, results)

    @abstractmethod
    def _values_of_rank(self, rank: int, number: int) -> Any:
        """What `rank` starts with in draw `number`."""


def summed(values: Any) -> Any:
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

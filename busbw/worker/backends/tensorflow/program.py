"""Programs on the replicas of a `tf.distribute` strategy: the collective, and a training step.

Each is traced once, then called. Its loop is around `strategy.run`, within one `tf.function`. In
place, a round's result is the next round's input; out of place every round reads the same input.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow as tf

from busbw.model.case import Case
from busbw.model.words import Clock, Placement
from busbw.workloads.dense_step import LEARNING_RATE, layer_of

from ..base import unavailable, wrong_world
from ..framework import AbstractChain, AbstractValues
from ..values import MOST_STEPS, StepValues, Values, tiled
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


class TensorflowProgram(AbstractChain):
    """A chain on the replicas of `strategy`, one `tf.function` that is traced once for its shape.

    A call passes its arguments to their devices only if there is a round that needs them, which
    takes as long as half a round (observed): so a chain of one is the shortest to count from.
    Raises MeasuringError WRONG_WORLD where there are not as many replicas as ranks.
    """

    step = 1
    shortest = 1
    _call: Any

    def __init__(self, case: Case, strategy: Any, values: AbstractValues) -> None:
        there = int(strategy.num_replicas_in_sync)
        if there != case.ranks:
            raise wrong_world(f"{there} replicas take part, expected {case.ranks}")
        super().__init__(case, values)
        self._strategy = strategy
        self._devices: list[str] = list(strategy.extended.worker_devices)
        # Of several processes each has ranks of its own, in the order of their indices.
        own, resolver = len(self._devices), strategy.cluster_resolver
        self._first = own * resolver.task_id if own < case.ranks else 0
        self._gpus = [name for name in self._devices if "GPU" in name]
        for name in self._gpus:
            tf.config.experimental.reset_memory_stats(name)
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
        self.proof = proof.prove(self._case, executed, self._call.graph, len(self._devices))

    @final
    def release(self) -> None:
        self._start = self._result = self._call = None
        self._batch = ()

    @final
    def device_peak_bytes(self) -> int | None:
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in self._gpus]
        return max(peaks, default=None)

    @final
    def _lay_out(self, number: int) -> None:
        self._start = None
        self._start = self._on_ranks(lambda rank: self._values_of_rank(rank, number))

    @final
    def _on_ranks(self, made: Callable[[int], Any]) -> Any:
        def of_replica(context: Any) -> Any:
            rank = context.replica_id_in_sync_group
            with tf.device(self._devices[rank - self._first]):
                return made(rank)

        values = self._strategy.experimental_distribute_values_from_function(of_replica)
        self._wait(values)
        # What a single replica returns is no group of values either, and goes in again.
        return values if len(self._devices) > 1 else self._local(values)[0]

    @final
    def _called(self, iterations: int) -> tuple[Any, Any]:
        """From the starting values: a result is on another device, and would take another graph."""
        counted, result = self._call(self._start, *self._batch, tf.constant(iterations))
        self._wait(result)
        return counted, result

    @final
    def _compared(self, number: int, iterations: int) -> int:
        """Every rank's own, uncopied on the CPU."""
        results = {
            rank: value._numpy() if "CPU" in value.backing_device else value
            for rank, value in enumerate(self._local(self._result), start=self._first)
        }
        return self._values.check_all(number, iterations, results)

    def _local(self, values: Any) -> list[Any]:
        return list(self._strategy.experimental_local_results(values))

    def _wait(self, values: Any) -> None:
        """Until every rank's values are there: `_numpy` waits and copies nothing on the CPU."""
        for value in self._local(values):
            if "CPU" in value.backing_device:
                value._numpy()
            else:
                value[:1].numpy()

    @abstractmethod
    def _values_of_rank(self, rank: int, number: int) -> Any:
        """What `rank` starts with in draw `number`."""


def chained(one: Callable[[Any], Any], turns: Any, start: Any) -> tuple[Any, Any]:
    """TensorFlow allows no all-reduce in a loop inside the replica function."""
    counted, result = tf.while_loop(
        lambda turn, _: turn < turns,
        lambda turn, held: (turn + 1, one(held)),
        (tf.constant(0), start),
        parallel_iterations=1,
    )
    return counted, result


def summed(values: Any) -> Any:
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)


class CollectiveProgram(TensorflowProgram):
    """The all-reduce of `case`, chained or by itself; exact on all devices, `virtual` or not."""

    def __init__(self, case: Case, strategy: Any, *, virtual: bool) -> None:
        dtype = tf.dtypes.as_dtype(case.dtype)
        self._count = case.payload_bytes // dtype.size
        self._exact = Values(case, dtype.as_numpy_dtype)
        super().__init__(case, strategy, self._exact)
        rounds = self._exact.most_rounds()
        single = case.clock is Clock.DISPATCH
        self.most_iterations = 1 if single else rounds
        if self.most_iterations <= self.shortest and not single:
            raise unavailable(f"{case.dtype} holds no exact chain of 2 over {case.ranks} ranks")
        self._trace(self._once if single else self._loop)

    @classmethod
    def host_bytes(cls, case: Case) -> int:
        """As measured at 16M to 1024M on 2, 4 and 8 ranks.

        A ring holds the chain's input, the last result and the next one, less what is not there
        yet at the peak. The others hold the inputs and a few sums, which all ranks share.
        """
        if case.strategy == "ring":
            kept = case.placement == Placement.OUT_OF_PLACE.value
            buffers = 3 + kept - 1 / (2 * case.ranks)
        else:
            sums = 5.8 if case.strategy == "hierarchical_copy" else 3.4
            buffers = 1 + min(1.1, sums / case.ranks)
        return int(buffers * case.ranks * case.payload_bytes)

    def _values_of_rank(self, rank: int, number: int) -> Any:
        (period,) = self._exact.start(rank, number)
        return _repeated(tiled(period, self._count), self._count)

    def _loop(self, values: Any, turns: Any) -> tuple[Any, Any]:
        in_place = self._case.placement == Placement.IN_PLACE.value

        def one(held: Any) -> Any:
            return self._strategy.run(_all_reduce, args=(held if in_place else values,))

        return chained(one, turns, values)

    def _once(self, values: Any, turns: Any) -> tuple[Any, Any]:
        return tf.constant(1), self._strategy.run(_all_reduce, args=(values,))


def _all_reduce(values: Any) -> Any:
    return summed(tf.identity(values))


def _repeated(values: Any, count: int) -> Any:
    """To `count` rows, the last time as far as they go."""
    first = tf.constant(values)
    found = tf.tile(first, [-(-count // first.shape[0]), *[1] * (first.shape.rank - 1)])
    return found if found.shape[0] == count else found[:count]


class DenseStepProgram(TensorflowProgram):
    """Steps of the dense layer of `case`: each replica's weights go from one step to the next."""

    most_iterations = MOST_STEPS

    def __init__(self, case: Case, strategy: Any, *, virtual: bool) -> None:
        self._layer = layer_of(case)
        self._reference = StepValues(self._layer, virtual=virtual)
        super().__init__(case, strategy, self._reference)
        batch = (self._reference.rows, self._reference.labels)
        self._trace(self._chain, *(self._on_ranks(self._parts(one)) for one in batch))

    @classmethod
    def host_bytes(cls, case: Case) -> int:
        """As measured at 16M to 256M on 2, 4 and 8 ranks.

        On each rank the first weights, those of the step and its gradient; a ring's sum of them,
        and the more ranks share the cores the more of them have new weights while others still
        sum. The other strategies have sums that all ranks share. The rows, made and laid out.
        """
        ring = case.strategy == "ring"
        buffers = min(5.0, 3.8 + case.ranks / 10) if ring else 3 + 2 / case.ranks
        layer = layer_of(case)
        rows = layer.rows * layer.inputs * np.dtype(case.dtype).itemsize
        return case.ranks * (int(buffers * case.payload_bytes) + 2 * rows)

    def _values_of_rank(self, rank: int, number: int) -> Any:
        return _repeated(self._reference.start(number), self._layer.inputs)

    def _parts(self, values: Any) -> Any:
        count = self._layer.rows
        return lambda rank: tf.constant(values[rank * count : (rank + 1) * count])

    def _chain(self, weights: Any, rows: Any, labels: Any, turns: Any) -> tuple[Any, Any]:
        def one(held: Any) -> Any:
            return self._strategy.run(one_step, args=(held, rows, labels))

        return chained(one, turns, weights)


def one_step(weights: Any, rows: Any, labels: Any) -> Any:
    """One replica's new weights. The gradient's all-reduce is the only collective."""
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = cross_entropy(tf.linalg.matmul(rows, weights), labels)
    ranks = tf.distribute.get_replica_context().num_replicas_in_sync
    # The mean over ranks and the rate in one: a pass over memory less.
    return weights - (LEARNING_RATE / ranks) * summed(tape.gradient(loss, weights))


def cross_entropy(logits: Any, labels: Any) -> Any:
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )

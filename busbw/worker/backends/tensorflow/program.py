"""The program of a collective on the replicas of a `tf.distribute` strategy.

It is traced once and then called. Its loop is around `strategy.run`, inside one `tf.function`. In
place the result of an iteration is the input of the next one. Out of place all iterations have the
same input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow as tf

from busbw.model.case import Case
from busbw.model.words import Clock, Placement

from ..base import unavailable, wrong_world
from ..chain import Chain
from ..values import Values, memory_at, tiled
from . import proof


def make_strategy(name: str, devices: Sequence[str]) -> Any:
    """Make the strategy of that name over devices of one process."""
    if name == "tpu":
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        return tf.distribute.TPUStrategy(resolver)
    operations = {
        "nccl": tf.distribute.NcclAllReduce,
        "reduction_to_one_device": tf.distribute.ReductionToOneDevice,
        "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
    }
    operation = operations[name]() if name in operations else None
    return tf.distribute.MirroredStrategy(list(devices), cross_device_ops=operation)


@final
class TensorflowProgram(Chain):
    """The chain of a case on the replicas of `strategy`.

    A call moves its arguments to their devices only if an iteration needs them, which takes as long
    as half an iteration (observed). So the shortest chain is one of a single iteration.
    """

    step = 1
    shortest = 1
    _call: Any

    def __init__(
        self, case: Case, strategy: Any, values_of: Callable[[Case, Any], Values] = Values
    ) -> None:
        replicas = int(strategy.num_replicas_in_sync)
        if replicas != case.ranks:
            raise wrong_world(f"{replicas} replicas take part, expected {case.ranks}")
        self._dtype = tf.dtypes.as_dtype(case.dtype)
        values = values_of(case, self._dtype.as_numpy_dtype)
        super().__init__(case, values)
        self.most_iterations = _most_iterations(case, values.most_rounds())
        self._strategy = strategy
        self._devices: list[str] = list(strategy.extended.worker_devices)
        # Each of several processes has ranks of its own, in the order of the processes.
        local_ranks, resolver = len(self._devices), strategy.cluster_resolver
        self._first = local_ranks * resolver.task_id if local_ranks < case.ranks else 0
        self._is_host = all("CPU" in name for name in self._devices)
        self._gpus = [name for name in self._devices if "GPU" in name]
        for name in self._gpus:
            tf.config.experimental.reset_memory_stats(name)
        self.initialize()
        begun_s = time.perf_counter()
        chain = _once if case.clock is Clock.DISPATCH else _loop
        traced = tf.function(
            lambda values, turns: chain(case, strategy, values, turns), autograph=False
        )
        self._call = traced.get_concrete_function(self.inputs, tf.constant(1))
        executed = proof.executed_graphs(lambda: self.run(0))
        self.compile_s = time.perf_counter() - begun_s
        self.proof = proof.prove(case, executed, self._call.graph, local_ranks)
        self.timed = proof.reducing_nodes(executed)

    def release(self) -> None:
        self.inputs = self.result = self._call = None

    def device_peak_bytes(self) -> int | None:
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in self._gpus]
        return max(peaks, default=None)

    def _write(self, draw: int) -> None:
        """Write the starting values in place if a device's memory is the host's."""
        if self.inputs is None or not self._is_host:
            self.inputs = None
            self.inputs = self._distribute(lambda rank: self._starting_values(rank, draw))
            return
        # A device of the CPU uses the memory only during a call.
        arrays = (value._numpy() for value in self._local(self.inputs))
        buffers = (memory_at(array.ctypes.data, array.size, array.dtype) for array in arrays)
        self.values.write(draw, dict(enumerate(buffers, start=self._first)))

    def _starting_values(self, rank: int, draw: int) -> Any:
        count = self._case.payload_bytes // self._dtype.size
        (period,) = self.values.start(rank, draw)
        stretch = tf.constant(tiled(period, count))
        values = tf.tile(stretch, [-(-count // stretch.shape[0])])
        return values if values.shape[0] == count else values[:count]

    def _distribute(self, values_of: Callable[[int], Any]) -> Any:
        def on_replica(context: Any) -> Any:
            rank = context.replica_id_in_sync_group
            with tf.device(self._devices[rank - self._first]):
                return values_of(rank)

        values = self._strategy.experimental_distribute_values_from_function(on_replica)
        self._wait(values)
        # With a single replica the result is no group of values, so the argument must be none.
        return values if len(self._devices) > 1 else self._local(values)[0]

    def _run(self, iterations: int) -> tuple[Any, Any]:
        """Call the program with the starting values.

        A result is on another device, and would need another graph.
        """
        counted, result = self._call(self.inputs, tf.constant(iterations))
        self._wait(result)
        return counted, result

    def results_by_rank(self) -> dict[int, Any]:
        """Return the results of this process by rank, without a copy on the CPU."""
        return {
            rank: value._numpy() if "CPU" in value.backing_device else value
            for rank, value in enumerate(self._local(self.result), start=self._first)
        }

    def _local(self, values: Any) -> list[Any]:
        return list(self._strategy.experimental_local_results(values))

    def _wait(self, values: Any) -> None:
        """Wait until every rank's values exist. `_numpy` waits and copies nothing on the CPU."""
        for value in self._local(values):
            if "CPU" in value.backing_device:
                value._numpy()
            else:
                value[:1].numpy()


def _most_iterations(case: Case, rounds: int) -> int:
    if case.clock is Clock.DISPATCH:
        return 1
    if rounds <= TensorflowProgram.shortest:
        raise unavailable(f"{case.dtype} holds no exact chain of 2 over {case.ranks} ranks")
    return rounds


def _loop(case: Case, strategy: Any, values: Any, turns: Any) -> tuple[Any, Any]:
    """Repeat the all-reduce on all ranks; return how many turns ran, and the result.

    TensorFlow allows no all-reduce in a loop inside the replica function.
    """
    in_place = case.placement == Placement.IN_PLACE.value

    def body(result: Any) -> Any:
        return strategy.run(_all_reduce, args=(result if in_place else values,))

    counted, result = tf.while_loop(
        lambda turn, _: turn < turns,
        lambda turn, result: (turn + 1, body(result)),
        (tf.constant(0), values),
        parallel_iterations=1,
    )
    return counted, result


def _once(case: Case, strategy: Any, values: Any, turns: Any) -> tuple[Any, Any]:
    return tf.constant(1), strategy.run(_all_reduce, args=(values,))


def _all_reduce(values: Any) -> Any:
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))


def host_bytes(case: Case) -> int:
    """Return the host memory of all ranks, as measured at 16M to 1024M on 2, 4 and 8 ranks.

    A ring has the chain's input, the last result and the next one, less the part that is not
    allocated yet at the peak. The other algorithms have the inputs, and a few sums that all ranks
    share.
    """
    if case.strategy == "ring":
        has_input = case.placement == Placement.OUT_OF_PLACE.value
        buffers = 3 + has_input - 1 / (2 * case.ranks)
    else:
        sums = 5.8 if case.strategy == "hierarchical_copy" else 3.4
        buffers = 1 + min(1.1, sums / case.ranks)
    return int(buffers * case.ranks * case.payload_bytes)

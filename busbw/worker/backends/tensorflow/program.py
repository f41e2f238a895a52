"""The program of a collective on the replicas of a `tf.distribute` strategy.

It is traced once, then called. Its loop is around `strategy.run`, within one `tf.function`. In
place, a round's result is the next round's input; out of place every round reads the same input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import tensorflow as tf

from busbw.model.case import Case
from busbw.model.words import Clock, Placement

from ..base import unavailable, wrong_world
from ..framework import AbstractChain
from ..values import Values, memory_at, tiled
from ..words import Words
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


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a chain repeats, and what must come of it.

    ``of_rank(rank, number)`` is what a rank starts with in a draw.
    ``chain(values, turns) -> (rounds counted, result)`` is for all ranks.
    """

    values: Values
    most_iterations: int
    of_rank: Callable[[int, int], Any]
    chain: Callable[..., tuple[Any, Any]]


@final
class TensorflowProgram(AbstractChain):
    """The chain of `work` on the replicas of `strategy`, one `tf.function` that is traced once.

    A call passes its arguments to their devices only if there is a round that needs them, which
    takes as long as half a round (observed): so a chain of one is the shortest to count from.
    Raises MeasuringError WRONG_WORLD where there are not as many replicas as ranks.
    """

    step = 1
    shortest = 1
    _call: Any

    def __init__(self, case: Case, strategy: Any, work: Work) -> None:
        there = int(strategy.num_replicas_in_sync)
        if there != case.ranks:
            raise wrong_world(f"{there} replicas take part, expected {case.ranks}")
        super().__init__(case, work.values)
        self.most_iterations = work.most_iterations
        self._strategy, self._of_rank = strategy, work.of_rank
        self._devices: list[str] = list(strategy.extended.worker_devices)
        # Of several processes each has ranks of its own, in the order of their indices.
        own, resolver = len(self._devices), strategy.cluster_resolver
        self._first = own * resolver.task_id if own < case.ranks else 0
        self._is_host = all("CPU" in name for name in self._devices)
        self._gpus = [name for name in self._devices if "GPU" in name]
        for name in self._gpus:
            tf.config.experimental.reset_memory_stats(name)
        self._start: Any = None
        self._aside: Any = None
        self.fresh()
        with self._compiling():
            traced = tf.function(work.chain, autograph=False)
            self._call = traced.get_concrete_function(self._start, tf.constant(1))
            executed = proof.executed_graphs(lambda: self.run(0))
        self.proof = proof.prove(case, executed, self._call.graph, own)
        self.timed = proof.reducing_nodes(executed)

    def release(self) -> None:
        self._start = self._aside = self._result = self._call = None

    def device_peak_bytes(self) -> int | None:
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in self._gpus]
        return max(peaks, default=None)

    def _lay_out(self, number: int) -> None:
        """In place where a device's memory is the host's; nobody reads it between two calls."""
        if self._start is None or not self._is_host:
            self._start = None
            self._start = self._on_ranks(lambda rank: self._of_rank(rank, number))
            return
        held = (value._numpy() for value in self._local(self._start))
        memories = (memory_at(one.ctypes.data, one.size, one.dtype) for one in held)
        self._values.lay_out(number, dict(enumerate(memories, start=self._first)))

    def _on_ranks(self, made: Callable[[int], Any]) -> Any:
        def of_replica(context: Any) -> Any:
            rank = context.replica_id_in_sync_group
            with tf.device(self._devices[rank - self._first]):
                return made(rank)

        values = self._strategy.experimental_distribute_values_from_function(of_replica)
        self._wait(values)
        # What a single replica returns is no group of values either, and goes in again.
        return values if len(self._devices) > 1 else self._local(values)[0]

    def _called(self, iterations: int) -> tuple[Any, Any]:
        """From the starting values: a result is on another device, and would take another graph."""
        counted, result = self._call(self._start, tf.constant(iterations))
        self._wait(result)
        return counted, result

    def _swap(self) -> None:
        self._start, self._aside = self._aside, self._start

    def _results(self) -> dict[int, Any]:
        """Every rank's own, uncopied on the CPU."""
        return {
            rank: value._numpy() if "CPU" in value.backing_device else value
            for rank, value in enumerate(self._local(self._result), start=self._first)
        }

    def _local(self, values: Any) -> list[Any]:
        return list(self._strategy.experimental_local_results(values))

    def _wait(self, values: Any) -> None:
        """Until every rank's values are there: `_numpy` waits and copies nothing on the CPU."""
        for value in self._local(values):
            if "CPU" in value.backing_device:
                value._numpy()
            else:
                value[:1].numpy()


def collective_of(case: Case, strategy: Any, *, soaking: bool = False) -> Work:
    """The all-reduce of `case`, chained or by itself. Raises MeasuringError where none is exact."""
    dtype = tf.dtypes.as_dtype(case.dtype)
    exact = (Words if soaking else Values)(case, dtype.as_numpy_dtype)
    count = case.payload_bytes // dtype.size
    single, rounds = case.clock is Clock.DISPATCH, exact.most_rounds()
    if rounds <= TensorflowProgram.shortest and not single:
        raise unavailable(f"{case.dtype} holds no exact chain of 2 over {case.ranks} ranks")

    def of_rank(rank: int, number: int) -> Any:
        (period,) = exact.start(rank, number)
        return _repeated(tiled(period, count), count)

    return Work(
        values=exact,
        most_iterations=1 if single else rounds,
        of_rank=of_rank,
        chain=lambda values, turns: (_once if single else _loop)(case, strategy, values, turns),
    )


def _loop(case: Case, strategy: Any, values: Any, turns: Any) -> tuple[Any, Any]:
    """Repeat the all-reduce. TensorFlow allows none in a loop inside the replica function."""
    in_place = case.placement == Placement.IN_PLACE.value

    def one(held: Any) -> Any:
        return strategy.run(_all_reduce, args=(held if in_place else values,))

    counted, result = tf.while_loop(
        lambda turn, _: turn < turns,
        lambda turn, held: (turn + 1, one(held)),
        (tf.constant(0), values),
        parallel_iterations=1,
    )
    return counted, result


def _once(case: Case, strategy: Any, values: Any, turns: Any) -> tuple[Any, Any]:
    return tf.constant(1), strategy.run(_all_reduce, args=(values,))


def _all_reduce(values: Any) -> Any:
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))


def _repeated(values: Any, count: int) -> Any:
    """Return `count` elements, the last time as far as the values go."""
    first = tf.constant(values)
    found = tf.tile(first, [-(-count // first.shape[0])])
    return found if found.shape[0] == count else found[:count]


def host_bytes(case: Case) -> int:
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

"""One case in TensorFlow: `all_reduce` under a strategy, chained by a loop outside `run`.

TensorFlow allows no all-reduce in a loop inside the replica function, so the loop is around
`strategy.run`, within one `tf.function`. In place, a round's result is the next round's input;
out of place every round reads the same input.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from busbw.model import Case, Clock, FailureKind, Placement

from . import tensorflow_proof
from .base import AbstractProgram, MeasuringError
from .expected import Values, tiled

# How many draws of starting values take turns.
_DRAWS = 4


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


class TensorflowProgram(AbstractProgram):
    """The chain as one `tf.function`, traced once for the case's shape.

    A call hands its arguments to their devices only if there is a round that wants them, which
    takes as long as half a round (seen): so a chain of one is the shortest to count from.
    """

    step = 1
    shortest = 1

    def __init__(self, case: Case, strategy: Any) -> None:
        self._case = case
        self._strategy = strategy
        self._check_world()
        self._dtype = tf.dtypes.as_dtype(case.dtype)
        self._count = case.payload_bytes // self._dtype.size
        self._values = Values(case, self._dtype.as_numpy_dtype)
        rounds = self._values.most_rounds()
        single = case.clock is Clock.DISPATCH
        self.most_iterations = 1 if single else rounds
        if self.most_iterations <= self.shortest and not single:
            raise MeasuringError(
                FailureKind.UNAVAILABLE,
                f"{case.dtype} holds no exact chain of 2 over {case.ranks} ranks",
            )
        for name in strategy.extended.worker_devices:
            if "GPU" in name:
                tf.config.experimental.reset_memory_stats(name)
        self._draw = -1
        self._start: Any = None
        self._result: Any = None
        self._counted: Any = None
        self._anchor: Any = None
        self.fresh()
        begun_s = time.perf_counter()
        body = self._once if single else self._loop
        self._call = tf.function(body, autograph=False).get_concrete_function(
            self._start, tf.constant(1)
        )
        executed = tensorflow_proof.executed_graphs(lambda: self.run(0))
        self.compile_s = time.perf_counter() - begun_s
        self.proof = tensorflow_proof.prove(case, executed, self._call.graph)

    def release(self) -> None:
        """Let go of the values and of the graph."""
        self._start = self._result = self._anchor = None
        del self._call

    def fresh(self) -> None:
        """The next draw, each rank's on its own device; the last result is let go of first."""
        self._draw = (self._draw + 1) % _DRAWS
        self._start = self._result = None
        strategy = self._strategy
        self._start = strategy.experimental_distribute_values_from_function(self._values_of_rank)
        self._wait(self._start)

    def _values_of_rank(self, context: Any) -> Any:
        rank = context.replica_id_in_sync_group
        with tf.device(self._strategy.extended.worker_devices[rank]):
            (period,) = self._values.start(rank, self._draw)
            stretch = tf.constant(tiled(period, self._count))
            found = tf.tile(stretch, [-(-self._count // stretch.shape[0])])
            return found if found.shape[0] == self._count else found[: self._count]

    def _loop(self, values: Any, turns: Any) -> tuple[Any, Any]:
        chained = self._case.placement == Placement.IN_PLACE.value

        def body(turn: Any, held: Any) -> tuple[Any, Any]:
            given = held if chained else values
            return turn + 1, self._strategy.run(_all_reduce, args=(given,))

        counted, result = tf.while_loop(
            lambda turn, _: turn < turns, body, (tf.constant(0), values), parallel_iterations=1
        )
        return counted, result

    def _once(self, values: Any, turns: Any) -> tuple[Any, Any]:
        return tf.constant(1), self._strategy.run(_all_reduce, args=(values,))

    def run(self, iterations: int) -> None:
        """`iterations` sums in one call, and wait for it; always from the starting values.

        A result lies on another device in TensorFlow's eyes, and from it another graph would run.
        """
        self._result = None
        self._counted, self._result = self._call(self._start, tf.constant(iterations))
        self._wait(self._result)

    def _on_ranks(self, values: Any) -> list[Any]:
        found: list[Any] = list(self._strategy.experimental_local_results(values))
        return found

    def _wait(self, values: Any) -> None:
        """Until every rank's values are there: `_numpy` waits and copies nothing on the CPU."""
        for value in self._on_ranks(values):
            if "CPU" in value.backing_device:
                value._numpy()
            else:
                value[:1].numpy()

    def check(self, iterations: int) -> int:
        """The rounds that the program counted; every element on every rank, uncopied on the CPU."""
        if int(self._counted) != iterations:
            raise MeasuringError(
                FailureKind.WRONG_RESULT,
                f"the program ran {int(self._counted)} rounds, expected {iterations}",
            )
        results = {
            rank: value._numpy() if "CPU" in value.backing_device else value
            for rank, value in enumerate(self._on_ranks(self._result))
        }
        return self._values.check_all(self._draw, iterations, results)

    def anchor(self, passes: int) -> None:
        """From the starting values each time; the memory is that of the last result."""
        self._result = None
        if self._anchor is None:
            traced = tf.function(self._passes, autograph=False)
            self._anchor = traced.get_concrete_function(self._start, tf.constant(1))
        self._result = self._anchor(self._start, tf.constant(passes))
        self._wait(self._result)
        self._result = None

    def _passes(self, values: Any, passes: Any) -> Any:
        return self._strategy.run(_changes_of_sign, args=(values, passes))

    def device_peak_bytes(self) -> int | None:
        """The highest use of any GPU since this program was made."""
        peaks = [
            tf.config.experimental.get_memory_info(name)["peak"]
            for name in self._strategy.extended.worker_devices
            if "GPU" in name
        ]
        return max(peaks, default=None)

    def _check_world(self) -> None:
        there = int(self._strategy.num_replicas_in_sync)
        if there != self._case.ranks:
            raise MeasuringError(
                FailureKind.WRONG_WORLD, f"{there} replicas take part, expected {self._case.ranks}"
            )


def _all_reduce(values: Any) -> Any:
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))


def _changes_of_sign(values: Any, passes: Any) -> Any:
    """Reads and writes all of `values` so many times, in place but for the first."""
    return tf.while_loop(
        lambda done, _: done < passes,
        lambda done, held: (done + 1, -held),
        (tf.constant(0), values),
        parallel_iterations=1,
    )[1]

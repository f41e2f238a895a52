"""One case in TensorFlow: `all_reduce` under a strategy, chained by a loop outside `run`.

TensorFlow allows no all-reduce in a loop inside the replica function, so the loop is around
`strategy.run`, within one `tf.function`. The graph is then searched for the algorithm that
TensorFlow put there; one that is not the strategy's own is a Failure.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from busbw.model import Case, FailureKind, Proof

from . import expected
from .base import AbstractProgram, MeasuringError

_CHECKED_AT_ONCE = 2**18


@dataclass(frozen=True)
class _Algorithm:
    """What the graph must hold: an op for each rank, or at least one; its hint, if it has one."""

    op: str
    each_rank: bool
    hint: str = ""


_ALGORITHMS = {
    "ring": _Algorithm(op="CollectiveReduceV2", each_rank=True, hint="ring"),
    "collective_nccl": _Algorithm(op="CollectiveReduceV2", each_rank=True, hint="nccl"),
    "nccl": _Algorithm(op="NcclAllReduce", each_rank=True),
    "reduction_to_one_device": _Algorithm(op="AddN", each_rank=False),
    "hierarchical_copy": _Algorithm(op="AddN", each_rank=False),
    "tpu": _Algorithm(op="CrossReplicaSum", each_rank=False),
}
_REDUCING_OPS = {algorithm.op for algorithm in _ALGORITHMS.values()} | {"CollectiveReduceV3"}


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
    """The chain as one `tf.function`, traced once for the case's shape."""

    step = 2

    def __init__(self, case: Case, strategy: Any) -> None:
        self._case = case
        self._strategy = strategy
        self._dtype = tf.dtypes.as_dtype(case.dtype)
        self._count = case.payload_bytes // self._dtype.size
        self._starts = [self._tiled(self._start(rank)) for rank in range(case.ranks)]
        self.most_iterations = expected.most_rounds(case.dtype, case.ranks) // self.step * self.step
        if self.most_iterations == 0:
            raise MeasuringError(
                FailureKind.UNAVAILABLE,
                f"{case.dtype} holds no exact chain of sums over {case.ranks} ranks",
            )
        for name in strategy.extended.worker_devices:
            if "GPU" in name:
                tf.config.experimental.reset_memory_stats(name)
        begun_s = time.perf_counter()
        self._state: Any = None
        self.fresh()
        self._chain = tf.function(self._loop, autograph=False).get_concrete_function(
            self._state, tf.constant(1)
        )
        self.compile_s = time.perf_counter() - begun_s
        self.proof = self._prove()

    def release(self) -> None:
        """Let go of the values and of the graph."""
        self._state = None
        del self._chain

    def _start(self, rank: int) -> Any:
        case = self._case
        return expected.start(case.dtype, case.ranks, rank).astype(self._dtype.as_numpy_dtype)

    def _tiled(self, period: Any) -> Any:
        """A stretch of whole periods, long enough for TensorFlow to tile it quickly."""
        size = period.shape[0]
        stretch = max(size, min(self._count, _CHECKED_AT_ONCE) // size * size)
        return np.resize(period, stretch)

    def fresh(self) -> None:
        """Starting values, each rank's on its own device; the last result is let go of first."""
        self._state = None
        strategy = self._strategy
        self._state = strategy.experimental_distribute_values_from_function(self._values_of_rank)
        self._wait()

    def _values_of_rank(self, context: Any) -> Any:
        rank = context.replica_id_in_sync_group
        device = self._strategy.extended.worker_devices[rank]
        with tf.device(device):
            stretch = tf.constant(self._starts[rank])
            tiled = tf.tile(stretch, [-(-self._count // self._starts[rank].shape[0])])
            return tiled if tiled.shape[0] == self._count else tiled[: self._count]

    def _loop(self, values: Any, turns: Any) -> Any:
        def body(turn: Any, held: Any) -> tuple[Any, Any]:
            return turn + 1, self._strategy.run(_all_reduce, args=(held,))

        _, result = tf.while_loop(
            lambda turn, _: turn < turns, body, (tf.constant(0), values), parallel_iterations=1
        )
        return result

    def run(self, iterations: int) -> None:
        """A chain of `iterations` sums, one call, and wait for it."""
        self._state = self._chain(self._state, tf.constant(iterations))
        self._wait()

    def _results(self) -> list[Any]:
        results: list[Any] = list(self._strategy.experimental_local_results(self._state))
        return results

    def _wait(self) -> None:
        """Until every rank's values are there: `_numpy` waits and copies nothing on the CPU."""
        for value in self._results():
            if "CPU" in value.backing_device:
                value._numpy()
            else:
                value[:1].numpy()

    def check(self, iterations: int) -> int:
        """Compare every element on every rank, piece by piece, without a copy on the CPU."""
        case = self._case
        after = expected.after(case.dtype, case.ranks, iterations)
        wanted = self._tiled(after.astype(self._dtype.as_numpy_dtype))
        for rank, value in enumerate(self._results()):
            view = value._numpy() if "CPU" in value.backing_device else value
            for begin in range(0, self._count, wanted.shape[0]):
                got = np.asarray(view[begin : begin + wanted.shape[0]])
                self._compare(rank, begin, got, wanted[: got.shape[0]])
        return int(self._count * case.ranks)

    def device_peak_bytes(self) -> int | None:
        """The highest use of any GPU since this program was made."""
        peaks = [
            tf.config.experimental.get_memory_info(name)["peak"]
            for name in self._strategy.extended.worker_devices
            if "GPU" in name
        ]
        return max(peaks, default=None)

    @staticmethod
    def _compare(rank: int, begin: int, got: Any, wanted: Any) -> None:
        if np.array_equal(got, wanted):
            return
        place = int(np.argmax(got != wanted))
        raise MeasuringError(
            FailureKind.WRONG_RESULT,
            f"rank {rank}, element {begin + place}: {got[place]}, expected {wanted[place]}",
        )

    def _prove(self) -> Proof:
        """The graph holds the strategy's own op, in the number and with the hint it must have."""
        case, algorithm = self._case, _ALGORITHMS[self._case.strategy]
        nodes = [node for node in _nodes(self._chain.graph) if node.op in _REDUCING_OPS]
        kinds = dict(Counter(node.op for node in nodes))
        hints = {node.attr["communication_hint"].s.decode() for node in nodes}
        wanted = case.ranks if algorithm.each_rank else max(1, kinds.get(algorithm.op, 0))
        if kinds != {algorithm.op: wanted} or (algorithm.hint and hints != {algorithm.hint}):
            hinted = f" (hint {', '.join(sorted(hints))})" if algorithm.hint else ""
            raise MeasuringError(
                FailureKind.NOT_A_COLLECTIVE,
                f"{case.strategy} is {wanted} x {algorithm.op}, for {case.dtype} TensorFlow put "
                f"{kinds or 'no reduction'}{hinted} into the graph",
            )
        return Proof(collectives=kinds, payload_copies=0, algorithm=case.strategy)


def _all_reduce(values: Any) -> Any:
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))


def _nodes(graph: Any) -> list[Any]:
    """Every node of a graph and of the functions that it calls."""
    definition = graph.as_graph_def()
    nodes = list(definition.node)
    for function in definition.library.function:
        nodes += function.node_def
    return nodes

"""The program of a case in TensorFlow: an all-reduce on the replicas of a `tf.distribute` strategy.

The program is a `tf.function`, which is traced once and then called. The loop of the program calls
`strategy.run`, which runs a function on each replica (a rank). In place the result of an iteration
is the input of the next iteration. Out of place all iterations have the same input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow as tf

from busbw.model.case import Case
from busbw.model.words import Clock, Placement

from ..base import wrong_world
from ..framework import ChainProgram
from ..values import CaseValues, array_at_address, repeat_period
from . import proof


def make_strategy(name: str, devices: Sequence[str]) -> tf.distribute.Strategy:
    """Make a `tf.distribute` strategy object that reduces by the strategy with the name `name`.

    For the name ``tpu``, make a TPUStrategy, which always has all TPUs. For other names, make a
    MirroredStrategy on `devices`, TensorFlow's names of devices of this process. The names
    ``nccl``, ``reduction_to_one_device`` and ``hierarchical_copy`` select how it reduces (the
    `cross_device_ops`). Any other name, such as ``ring``, selects TensorFlow's default.
    """
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
class TensorflowProgram(ChainProgram):
    """The traced program of a case in TensorFlow, on the replicas (the ranks) of a strategy.

    The cost of a call is measured by a call of one iteration, not by an empty call. An empty call
    would be too short: it does not move its arguments to their devices, which takes as long as half
    an iteration (observed).

    Args:
        case: the case.
        strategy: the `tf.distribute` strategy, with a replica for each rank.
        values_type: the class that makes the starting values and the exact results.

    """

    iterations_per_turn = 1
    shortest_chain_iterations = 1
    _call: Any

    def __init__(
        self,
        case: Case,
        strategy: tf.distribute.Strategy,
        values_type: type[CaseValues] = CaseValues,
    ) -> None:
        replicas = int(strategy.num_replicas_in_sync)
        if replicas != case.ranks:
            raise wrong_world(f"{replicas} replicas take part, expected {case.ranks}")
        self._dtype = tf.dtypes.as_dtype(case.dtype)
        values = values_type(case, self._dtype.as_numpy_dtype)
        super().__init__(case, values)
        self.max_iterations = self.max_chain_iterations(values.max_exact_iterations())
        self._strategy = strategy
        self._devices: list[str] = list(strategy.extended.worker_devices)
        # In a group, the first process has the first ranks, the second process the following ranks.
        local_ranks, resolver = len(self._devices), strategy.cluster_resolver
        self._first_rank = local_ranks * resolver.task_id if local_ranks < case.ranks else 0
        self._is_on_host = all("CPU" in name for name in self._devices)
        self._gpus = [name for name in self._devices if "GPU" in name]
        for name in self._gpus:
            tf.config.experimental.reset_memory_stats(name)
        self.initialize_values()
        begun_s = time.perf_counter()
        chain = _all_reduce_once if case.clock is Clock.DISPATCH else _all_reduce_in_loop
        traced = tf.function(
            lambda values, turns: chain(case, strategy, values, turns), autograph=False
        )
        self._call = traced.get_concrete_function(self.inputs, tf.constant(1))
        executed = proof.record_executed_graphs(lambda: self.run(0))
        self.compile_s = time.perf_counter() - begun_s
        self.proof = proof.prove(case, executed, self._call.graph, local_ranks)
        self.end_by_begin_instruction = proof.map_reductions_to_themselves(executed)

    def release_memory(self) -> None:
        self.inputs = self.result = self._call = None

    def device_peak_bytes(self) -> int | None:
        """Return the most memory that a GPU used since this program was made, in bytes.

        Only GPUs of this process count. Returns None on a CPU or a TPU.
        """
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in self._gpus]
        return max(peaks, default=None)

    def _write_draw(self, draw_number: int) -> None:
        """Write starting values on every rank of this process, and wait until they are written.

        The values go into the present inputs or, on accelerators, into new inputs. `draw_number` is
        the number of the draw (the set of starting values).
        """
        if self.inputs is None or not self._is_on_host:
            self.inputs = None
            self.inputs = self._make_on_devices(
                lambda rank: self._starting_values(rank, draw_number)
            )
            return
        # A virtual device uses its memory only during a call, so the host may write to it now.
        arrays = (value._numpy() for value in self._local_tensors(self.inputs))
        buffers = (array_at_address(array.ctypes.data, array.size, array.dtype) for array in arrays)
        self.values.write_starting_values(
            draw_number, dict(enumerate(buffers, start=self._first_rank))
        )

    def _starting_values(self, rank: int, draw_number: int) -> Any:
        """Return the starting values of a rank as a flat tensor, which has the size of the payload.

        `draw_number` is the number of the draw (the set of starting values).
        """
        count = self._case.payload_bytes // self._dtype.size
        (period,) = self.values.starting_values(rank, draw_number)
        stretch = tf.constant(repeat_period(period, count))
        values = tf.tile(stretch, [-(-count // stretch.shape[0])])
        return values if values.shape[0] == count else values[:count]

    def _make_on_devices(self, make_values: Callable[[int], Any]) -> Any:
        """Make the values of each rank of this process on the device of the rank.

        `make_values` takes the number of a rank, and returns its values. Returns the values of all
        these ranks, in the form in which the program takes them as an argument.
        """

        def make_on_device(context: Any) -> Any:
            rank = context.replica_id_in_sync_group
            with tf.device(self._devices[rank - self._first_rank]):
                return make_values(rank)

        values = self._strategy.experimental_distribute_values_from_function(make_on_device)
        self._wait_for_tensors(values)
        # With a single replica the program returns a tensor, not a group of tensors. The argument
        # of the program must have the same type.
        return values if len(self._devices) > 1 else self._local_tensors(values)[0]

    def _run_and_count_turns(self, iterations: int) -> tuple[Any, Any]:
        """Call the program with the starting values, and wait for the result.

        Each call begins with the starting values. The previous result cannot be the input of the
        next call, because the result is on another device, for which TensorFlow would need another
        graph. `iterations` is the number of collectives in the call. Returns the number of turns
        that the program's loop counted, and the result on all ranks.
        """
        counted, result = self._call(self.inputs, tf.constant(iterations))
        self._wait_for_tensors(result)
        return counted, result

    def results_by_rank(self) -> dict[int, Any]:
        """Return the result of the last call on each rank of this process, by the rank's number.

        On the CPU each result is a numpy array that shares the memory of TensorFlow's tensor. On
        other devices each result is a tensor.
        """
        return {
            rank: value._numpy() if "CPU" in value.backing_device else value
            for rank, value in enumerate(self._local_tensors(self.result), start=self._first_rank)
        }

    def _local_tensors(self, values: Any) -> list[Any]:
        """Split `values` of the program into the tensors of the ranks of this process.

        `values` is an argument or a result of the program.
        """
        return list(self._strategy.experimental_local_results(values))

    def _wait_for_tensors(self, values: Any) -> None:
        """Wait until the tensors of all ranks of this process are computed.

        `values` is an argument or a result of the program, which has these tensors. On the CPU
        `_numpy` waits without copying. On other devices a single element is copied.
        """
        for value in self._local_tensors(values):
            if "CPU" in value.backing_device:
                value._numpy()
            else:
                value[:1].numpy()


def _all_reduce_in_loop(
    case: Case, strategy: tf.distribute.Strategy, values: Any, turns: tf.Tensor
) -> tuple[Any, Any]:
    """Run the all-reduce of a case on all ranks, `turns` times in a loop.

    The loop is around `strategy.run`, because TensorFlow allows no all-reduce in a loop inside the
    function that a replica runs.

    Args:
        case: the case.
        strategy: the `tf.distribute` strategy over the ranks.
        values: the starting values of all ranks.
        turns: the number of turns of the loop, a tensor.

    Returns:
        A pair: the number of turns that ran, and the result on all ranks.

    """
    in_place = case.placement == Placement.IN_PLACE.value

    def run_iteration(result: Any) -> Any:
        return strategy.run(_all_reduce, args=(result if in_place else values,))

    counted, result = tf.while_loop(
        lambda turn, _: turn < turns,
        lambda turn, result: (turn + 1, run_iteration(result)),
        (tf.constant(0), values),
        parallel_iterations=1,
    )
    return counted, result


def _all_reduce_once(
    case: Case, strategy: tf.distribute.Strategy, values: Any, turns: tf.Tensor
) -> tuple[Any, Any]:
    """Run a single all-reduce on all ranks, without a loop.

    Returns a pair: 1 as the number of turns, and the result on all ranks. `strategy` is the
    `tf.distribute` strategy over the ranks, and `values` are the starting values of all ranks.
    `case` and `turns` are not used.
    """
    return tf.constant(1), strategy.run(_all_reduce, args=(values,))


def _all_reduce(values: tf.Tensor) -> tf.Tensor:
    """Return the sum of the `values` of all replicas. Each replica runs this function."""
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))

"""One case in TensorFlow: `all_reduce` under a strategy, chained by a loop outside `run`.

The loop is around `strategy.run`, within one `tf.function`. In place, a round's result is the next
round's input; out of place every round reads the same input.
"""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from busbw.model import Case, Clock, FailureKind, Placement

from . import tensorflow_proof
from .base import AbstractProgram, MeasuringError
from .expected import Values, tiled
from .tensorflow_anchor import Anchor
from .tensorflow_replicas import Replicas

# How many draws of starting values take turns.
_DRAWS = 4


class TensorflowProgram(AbstractProgram):
    """The chain as one `tf.function`, traced once for the case's shape.

    A call hands its arguments to their devices only if there is a round that wants them, which
    takes as long as half a round (seen): so a chain of one is the shortest to count from.
    """

    step = 1
    shortest = 1

    def __init__(self, case: Case, strategy: Any) -> None:
        self._case = case
        self._replicas = Replicas(strategy, case.ranks)
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
        self._replicas.begin_peak()
        self._draw = -1
        self._start: Any = None
        self._result: Any = None
        self._counted: Any = None
        self._anchor: Anchor | None = None
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
        self._start = self._replicas.laid_out(self._values_of_rank)

    def _values_of_rank(self, rank: int) -> Any:
        (period,) = self._values.start(rank, self._draw)
        stretch = tf.constant(tiled(period, self._count))
        found = tf.tile(stretch, [-(-self._count // stretch.shape[0])])
        return found if found.shape[0] == self._count else found[: self._count]

    def _loop(self, values: Any, turns: Any) -> tuple[Any, Any]:
        chained = self._case.placement == Placement.IN_PLACE.value

        def one(held: Any) -> Any:
            return self._replicas.run(_all_reduce, held if chained else values)

        return self._replicas.chained(one, turns, values)

    def _once(self, values: Any, turns: Any) -> tuple[Any, Any]:
        return tf.constant(1), self._replicas.run(_all_reduce, values)

    def run(self, iterations: int) -> None:
        """`iterations` sums in one call, and wait for it; always from the starting values.

        A result lies on another device in TensorFlow's eyes, and from it another graph would run.
        """
        self._result = None
        self._counted, self._result = self._call(self._start, tf.constant(iterations))
        self._replicas.wait(self._result)

    def check(self, iterations: int) -> int:
        """The rounds that the program counted; every element on every rank, uncopied on the CPU."""
        if int(self._counted) != iterations:
            raise MeasuringError(
                FailureKind.WRONG_RESULT,
                f"the program ran {int(self._counted)} rounds, expected {iterations}",
            )
        results = dict(enumerate(self._replicas.readable(self._result)))
        return self._values.check_all(self._draw, iterations, results)

    def anchor(self, passes: int) -> None:
        """From the starting values each time; the memory is that of the last result."""
        self._result = None
        self._anchor = self._anchor or Anchor(self._replicas, self._start)
        self._anchor.run(passes, self._start)

    def device_peak_bytes(self) -> int | None:
        """The highest use of any GPU since this program was made."""
        return self._replicas.peak_bytes()


def _all_reduce(values: Any) -> Any:
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))

"""A collective in TensorFlow: `all_reduce` under a strategy, chained by a loop outside `run`.

The loop is around `strategy.run`, within one `tf.function`. In place, a round's result is the next
round's input; out of place every round reads the same input.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from busbw.model.case import Case
from busbw.model.words import Clock, Placement

from ..base import unavailable
from ..values import Values, tiled
from .program import TensorflowProgram, summed


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


def _all_reduce(values: Any) -> Any:
    return summed(tf.identity(values))

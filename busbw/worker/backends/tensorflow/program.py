"""What every program in TensorFlow does alike: traced once, called from starting values, read.

The anchor is here, too: every rank reads and writes values of its own, and nothing more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, final

import tensorflow as tf

from busbw.model import Case

from ..chain import AbstractChain, AbstractValues
from . import proof
from .replicas import Replicas


class TensorflowProgram(AbstractChain):
    """A chain as one `tf.function`, traced once for the case's shape.

    A call hands its arguments to their devices only if there is a round that wants them, which
    takes as long as half a round (seen): so a chain of one is the shortest to count from.
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
        self._signs: Any = None

    @final
    def _trace(self, chain: Callable[..., tuple[Any, Any]], *batch: Any) -> None:
        """``chain(start, *batch, turns)``, as it is executed for the first time, and proved."""
        self._batch = batch
        self.fresh()
        with self._compiling():
            traced = tf.function(chain, autograph=False)
            self._call = traced.get_concrete_function(self._start, *batch, tf.constant(1))
            executed = proof.executed_graphs(lambda: self.run(0))
        self.proof = proof.prove(self._case, executed, self._call.graph)

    @final
    def release(self) -> None:
        """Release the values and the graphs."""
        self._start = self._result = self._signs = self._call = None
        self._batch = ()

    @final
    def device_peak_bytes(self) -> int | None:
        """The highest use of any GPU since this program was made."""
        return self._replicas.peak_bytes()

    @final
    def _lay_out(self, number: int) -> None:
        """Each rank's on its own device; the last ones are released first."""
        self._start = None
        self._start = self._replicas.laid_out(lambda rank: self._values_of_rank(rank, number))

    @final
    def _called(self, iterations: int) -> tuple[Any, Any]:
        """Always from the starting values.

        A result lies on another device in TensorFlow's eyes, and from it another graph would run.
        """
        counted, result = self._call(self._start, *self._batch, tf.constant(iterations))
        self._replicas.wait(result)
        return counted, result

    @final
    def _compared(self, number: int, iterations: int) -> int:
        """Uncopied on the CPU."""
        results = dict(enumerate(self._replicas.readable(self._result)))
        return self._values.check_all(number, iterations, results)

    @final
    def _change_signs(self, passes: int) -> None:
        """From the starting values each time; the memory is that of the last result."""
        if self._signs is None:
            traced = tf.function(
                lambda given, turns: self._replicas.run(_changed_signs, given, turns),
                autograph=False,
            )
            self._signs = traced.get_concrete_function(self._start, tf.constant(1))
        self._replicas.wait(self._signs(self._start, tf.constant(passes)))

    @abstractmethod
    def _values_of_rank(self, rank: int, number: int) -> Any:
        """What `rank` starts with in draw `number`."""


def _changed_signs(values: Any, passes: Any) -> Any:
    """Reads and writes all of `values` `passes` times, in place but for the first."""
    return tf.while_loop(
        lambda done, _: done < passes,
        lambda done, held: (done + 1, -held),
        (tf.constant(0), values),
        parallel_iterations=1,
    )[1]

"""The anchor in TensorFlow: every rank reads and writes values of its own, and nothing more.

A chain of changes of sign: no collective, the same devices, threads and bytes as the case.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .tensorflow_replicas import Replicas


class Anchor:
    """Traced once for values of the shape of `values`."""

    def __init__(self, replicas: Replicas, values: Any) -> None:
        self._replicas = replicas
        traced = tf.function(
            lambda given, passes: replicas.run(_changes_of_sign, given, passes), autograph=False
        )
        self._call: Any = traced.get_concrete_function(values, tf.constant(1))

    def run(self, passes: int, values: Any) -> Any:
        """So many passes from `values`, which stay as they are; waits for the result."""
        changed = self._call(values, tf.constant(passes))
        self._replicas.wait(changed)
        return changed


def _changes_of_sign(values: Any, passes: Any) -> Any:
    """Reads and writes all of `values` so many times, in place but for the first."""
    return tf.while_loop(
        lambda done, _: done < passes,
        lambda done, held: (done + 1, -held),
        (tf.constant(0), values),
        parallel_iterations=1,
    )[1]

"""Loops of all-reduces with which busbw's times are compared, as an engineer would write them.

A loop does all-reduces of float32 over virtual devices. `write_input` writes new input on every
rank, and `run` does several all-reduces in one call; both wait for the end. The time of a short
call is subtracted from the time of a long call: `shortest_iterations` is the number of all-reduces
in the short call. The loops use nothing of busbw, check no values and prove no program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class JaxLoop:
    """A loop in JAX: a program whose loop does a psum from one buffer to another, and one back.

    Both buffers are donated, so that no copy is needed.
    """

    shortest_iterations = 0

    def __init__(self, payload_bytes: int, ranks: int) -> None:
        import jax

        self._jax = jax
        mesh, spec = jax.sharding.Mesh(jax.devices()[:ranks], ("i",)), jax.P("i")
        self._loop = jax.jit(
            jax.shard_map(
                self._reduce_pairs,
                mesh=mesh,
                in_specs=(jax.P(), spec, spec),
                out_specs=(spec, spec),
            ),
            donate_argnums=(1, 2),
        )
        self._fill = jax.jit(lambda x: x * 0 + 1e-30, donate_argnums=0)
        zeros = jax.jit(
            lambda: jax.numpy.zeros(ranks * payload_bytes // 4),
            out_shardings=jax.sharding.NamedSharding(mesh, spec),
        )
        self._buffers = (zeros(), zeros())

    def _reduce_pairs(self, iterations: Any, x: Any, y: Any) -> Any:
        def sum_over_ranks(x: Any) -> Any:
            return self._jax.lax.pcast(self._jax.lax.psum(x, "i"), "i", to="varying")

        def reduce_twice(_: Any, pair: Any) -> Any:
            other = sum_over_ranks(pair[0])
            return sum_over_ranks(other), other

        return self._jax.lax.fori_loop(0, iterations // 2, reduce_twice, (x, y))

    def write_input(self) -> None:
        """Write the same small value into all elements of the input, in place."""
        self._buffers = (self._fill(self._buffers[0]), self._buffers[1])
        self._jax.block_until_ready(self._buffers)

    def run(self, iterations: int) -> None:
        self._buffers = self._loop(iterations, *self._buffers)
        self._jax.block_until_ready(self._buffers)


class TensorflowLoop:
    """A loop in TensorFlow: a tf.function with a while loop around `strategy.run` of all_reduce."""

    shortest_iterations = 1

    def __init__(self, payload_bytes: int, ranks: int) -> None:
        import tensorflow as tf

        self._tf = tf
        self._count = payload_bytes // 4
        self._devices = [f"/cpu:{rank}" for rank in range(ranks)]
        # Two strategies would otherwise use the same keys for their collectives.
        tf.distribute.MirroredStrategy._collective_key_base += 100_000
        self._strategy = tf.distribute.MirroredStrategy(self._devices)
        self.write_input()

        def step(x: Any) -> Any:
            context = tf.distribute.get_replica_context()
            return context.all_reduce("SUM", tf.identity(x))

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def loop(x: Any, turns: Any) -> Any:
            return tf.while_loop(
                lambda i, _: i < turns,
                lambda i, x: (i + 1, self._strategy.run(step, args=(x,))),
                (tf.constant(0), x),
                parallel_iterations=1,
            )[1]

        self._loop = loop.get_concrete_function(self._input, tf.constant(1))

    def write_input(self) -> None:
        """Make new input, on the device of each rank, with the same small value in all elements."""

        def value(context: Any) -> Any:
            with self._tf.device(self._devices[context.replica_id_in_sync_group]):
                return self._tf.fill([self._count], 1e-30)

        self._input = self._output = None
        self._input = self._strategy.experimental_distribute_values_from_function(value)
        self._wait_for(self._input)

    def run(self, iterations: int) -> None:
        self._output = None
        self._output = self._loop(self._input, self._tf.constant(iterations))
        self._wait_for(self._output)

    def _wait_for(self, values: Any) -> None:
        for value in self._strategy.experimental_local_results(values):
            value._numpy()


Loop = JaxLoop | TensorflowLoop

# The class of the loop by framework. A loop is made for a payload in bytes and a number of ranks.
LOOPS: Mapping[str, Callable[[int, int], Loop]] = {"jax": JaxLoop, "tensorflow": TensorflowLoop}

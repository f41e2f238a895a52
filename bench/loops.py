"""The loops that busbw's times are compared with, each written as a person would write it.

A loop lays out its input (`fresh`) and runs several all-reduces in one call (`run`). Nothing of
busbw is used, nothing is checked and nothing proved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class AbstractLoop(ABC):
    """An all-reduce of `payload_bytes` of float32 over `ranks` virtual devices."""

    name: str
    # The chain that a long one is compared with: as the back end's own `shortest`.
    shortest = 0

    @abstractmethod
    def fresh(self) -> None:
        """New input on every rank, and wait for it."""

    @abstractmethod
    def run(self, iterations: int) -> None:
        """`iterations` all-reduces, and wait for them."""


class JaxCopyFree(AbstractLoop):
    """One program: a loop of pairs of psums from one donated buffer to another one and back."""

    name = "copy-free loop"

    def __init__(self, payload_bytes: int, ranks: int) -> None:
        import jax

        self._jax = jax
        mesh, each = jax.sharding.Mesh(jax.devices()[:ranks], ("i",)), jax.P("i")
        self._loop = jax.jit(
            jax.shard_map(
                self._rounds, mesh=mesh, in_specs=(jax.P(), each, each), out_specs=(each, each)
            ),
            donate_argnums=(1, 2),
        )
        self._one = jax.jit(jax.shard_map(self._total, mesh=mesh, in_specs=each, out_specs=each))
        self._fill = jax.jit(lambda x: x * 0 + 1e-30, donate_argnums=0)
        zeros = jax.jit(
            lambda: jax.numpy.zeros(ranks * payload_bytes // 4),
            out_shardings=jax.sharding.NamedSharding(mesh, each),
        )
        self._pair = (zeros(), zeros())

    def _total(self, x: Any) -> Any:
        return self._jax.lax.pcast(self._jax.lax.psum(x, "i"), "i", to="varying")

    def _rounds(self, iterations: Any, x: Any, y: Any) -> Any:
        def two(_: Any, pair: Any) -> Any:
            other = self._total(pair[0])
            return self._total(other), other

        return self._jax.lax.fori_loop(0, iterations // 2, two, (x, y))

    def fresh(self) -> None:
        """The same value everywhere, over what is there."""
        self._pair = (self._fill(self._pair[0]), self._pair[1])
        self._jax.block_until_ready(self._pair)

    def run(self, iterations: int) -> None:
        """All in one call."""
        self._pair = self._loop(iterations, *self._pair)
        self._jax.block_until_ready(self._pair)


class JaxWithCopy(JaxCopyFree):
    """The loop one writes first: a single psum in the body, for which XLA copies each time."""

    name = "loop with a copy"

    def _rounds(self, iterations: Any, x: Any, y: Any) -> Any:
        return self._jax.lax.fori_loop(0, iterations, lambda _, x: self._total(x), x), y


class JaxAllocating(JaxCopyFree):
    """A jitted psum called again and again: its output is new memory in each call."""

    name = "calls that allocate"
    _result: Any = None

    def run(self, iterations: int) -> None:
        """A call for each."""
        for _ in range(iterations):
            # The last result lives until there is a new one, as in most loops that are written.
            self._result = self._jax.block_until_ready(self._one(self._pair[0]))


class TensorflowLoop(AbstractLoop):
    """One tf.function: a while loop around `strategy.run` of `all_reduce`."""

    name = "tf.function loop"
    shortest = 1

    def __init__(self, payload_bytes: int, ranks: int) -> None:
        import tensorflow as tf

        self._tf = tf
        self._count = payload_bytes // 4
        self._devices = [f"/cpu:{rank}" for rank in range(ranks)]
        # Collectives of two strategies must not take each other for their own.
        tf.distribute.MirroredStrategy._collective_key_base += 100_000
        self._strategy = tf.distribute.MirroredStrategy(self._devices)
        self.fresh()

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

    def fresh(self) -> None:
        """The same value everywhere, each rank's on its device."""

        def value(context: Any) -> Any:
            with self._tf.device(self._devices[context.replica_id_in_sync_group]):
                return self._tf.fill([self._count], 1e-30)

        self._input = self._output = None
        self._input = self._strategy.experimental_distribute_values_from_function(value)
        self._wait(self._input)

    def run(self, iterations: int) -> None:
        """One after the other, in one call."""
        self._output = None
        self._output = self._loop(self._input, self._tf.constant(iterations))
        self._wait(self._output)

    def _wait(self, values: Any) -> None:
        for value in self._strategy.experimental_local_results(values):
            value._numpy()


# Of bytes and ranks.
MakeLoop = Callable[[int, int], AbstractLoop]

# By framework, the one that busbw's own is compared with first.
LOOPS: Mapping[str, Sequence[MakeLoop]] = {
    "jax": (JaxCopyFree, JaxWithCopy, JaxAllocating),
    "tensorflow": (TensorflowLoop,),
}

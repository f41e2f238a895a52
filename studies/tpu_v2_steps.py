"""The training steps of the source of the TPU v2 table, which `pytest perf/ --program=` compiles.

The argument of each function is the list of devices of a slice. The source's batch has 128 rows
for each core, but its program draws the whole batch on every core. The batch, and not the
all-reduce, needs the memory.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax

OUTPUTS, INPUTS_PER_MIB, ROWS_PER_CORE = 1024, 256, 128
_LEARNING_RATE = 1e-3


def _make_source_step(mebibytes: int) -> Callable[[Sequence[Any]], Any]:
    """Return a function that makes a training step for devices.

    The weights of the step, and so its gradient, have a size of `mebibytes` MiB.
    """
    inputs = mebibytes * INPUTS_PER_MIB

    def program(devices: Sequence[Any]) -> Any:
        whole = jax.sharding.PartitionSpec()
        mesh = jax.sharding.Mesh(list(devices), ("ranks",))
        rows = ROWS_PER_CORE * len(devices)

        def loss(weights: Any, batch: Any, labels: Any) -> Any:
            chances = jax.nn.log_softmax(batch @ weights)
            return -jax.numpy.take_along_axis(chances, labels[:, None], axis=1).mean()

        def step(weights: Any, key: Any, labels: Any) -> Any:
            # With threefry the compiler can draw the batch in parts, and need not keep all of it.
            own_key = jax.random.wrap_key_data(key, impl="threefry2x32")
            own_key = jax.random.fold_in(own_key, jax.lax.axis_index("ranks"))
            batch = jax.random.normal(own_key, (rows, inputs))
            gradient = jax.lax.psum(jax.grad(loss)(weights, batch, labels), "ranks")
            return weights - _LEARNING_RATE * gradient / len(devices)

        mapped = jax.shard_map(step, mesh=mesh, in_specs=whole, out_specs=whole, check_vma=False)
        placed = jax.sharding.NamedSharding(mesh, whole)
        arguments = [((inputs, OUTPUTS), "float32"), ((2,), "uint32"), ((rows,), "int32")]
        shapes = [jax.ShapeDtypeStruct(*argument, sharding=placed) for argument in arguments]
        return jax.jit(mapped, donate_argnums=0).lower(*shapes)

    return program


step_128M = _make_source_step(128)
step_256M = _make_source_step(256)
step_512M = _make_source_step(512)
step_1024M = _make_source_step(1024)

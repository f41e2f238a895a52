"""Four training steps, one for each way to share out the work: what tests compile and count.

Run by a worker alone, which has JAX; nothing here is imported by a test.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HIDDEN, ROWS = 4, 512, 2048, 64


def data_parallel(devices):
    """Sum the gradients of two matrices over all ranks, within shard_map."""
    mesh = _mesh(devices, data=len(devices))

    def loss(weights, rows):
        up, down = weights
        return jnp.mean((jax.nn.relu(rows @ up) @ down) ** 2)

    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=(P(), P()),
        check_vma=False,
    )
    def step(weights, rows):
        value, grads = jax.value_and_grad(loss)(weights, rows)
        grads = jax.lax.psum(grads, "data")
        return _moved(weights, grads), jax.lax.pmean(value, "data")

    weights = (_array(mesh, P(), (WIDTH, HIDDEN)), _array(mesh, P(), (HIDDEN, WIDTH)))
    rows = _array(mesh, P("data"), (ROWS * len(devices), WIDTH))
    return jax.jit(step, donate_argnums=0).lower(weights, rows)


def fsdp(devices):
    """Cut up the weights of a scan over layers over all ranks, and gather them for each layer."""
    mesh = _mesh(devices, data=len(devices))
    whole, rows_apart = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    def loss(weights, rows):
        def layer(held, weights_of_layer):
            up, down = jax.lax.with_sharding_constraint(weights_of_layer, (whole, whole))
            held = jax.nn.relu(held @ up) @ down
            return jax.lax.with_sharding_constraint(held, rows_apart), None

        output, _ = jax.lax.scan(layer, rows, weights)
        return jnp.mean(output.astype(jnp.float32) ** 2)

    def step(weights, rows):
        value, grads = jax.value_and_grad(loss)(weights, rows)
        return _moved(weights, grads), value

    weights = (
        _array(mesh, P(None, "data"), (LAYERS, WIDTH, HIDDEN), jnp.bfloat16),
        _array(mesh, P(None, "data"), (LAYERS, HIDDEN, WIDTH), jnp.bfloat16),
    )
    rows = _array(mesh, P("data"), (ROWS * len(devices), WIDTH), jnp.bfloat16)
    return _jitted(step, weights, mesh).lower(weights, rows)


def tensor_parallel(devices):
    """Two blocks as in Megatron: columns of the first matrix, rows of the second along `model`."""
    mesh = _mesh(devices, data=len(devices) // 2, model=2)
    rows_apart = NamedSharding(mesh, P("data"))

    def loss(weights, rows):
        up, down = weights
        held = rows
        for _ in range(2):
            held = jax.lax.with_sharding_constraint(jax.nn.relu(held @ up) @ down, rows_apart)
        return jnp.mean(held**2)

    def step(weights, rows):
        value, grads = jax.value_and_grad(loss)(weights, rows)
        return _moved(weights, grads), value

    weights = (
        _array(mesh, P(None, "model"), (WIDTH, HIDDEN)),
        _array(mesh, P("model"), (HIDDEN, WIDTH)),
    )
    rows = _array(mesh, P("data"), (ROWS * len(devices), WIDTH))
    return _jitted(step, weights, mesh).lower(weights, rows)


def experts(devices):
    """Send rows to experts, one on each rank, by an all-to-all, and back."""
    mesh = _mesh(devices, expert=len(devices))

    def loss(weights_of_layer, rows):
        sent = jax.lax.all_to_all(rows.reshape(len(devices), -1, WIDTH), "expert", 0, 0)
        done = jax.nn.relu(sent.reshape(-1, WIDTH) @ weights_of_layer[0]).reshape(sent.shape)
        return jnp.mean(jax.lax.all_to_all(done, "expert", 0, 0) ** 2)

    specs = P("expert"), P("expert")

    @partial(jax.shard_map, mesh=mesh, in_specs=specs, out_specs=(P("expert"), P()))
    def step(weights, rows):
        value, grads = jax.value_and_grad(loss)(weights, rows)
        return _moved(weights, grads), jax.lax.pmean(value, "expert")

    weights = _array(mesh, P("expert"), (len(devices), WIDTH, WIDTH))
    rows = _array(mesh, P("expert"), (ROWS * len(devices), WIDTH))
    return jax.jit(step, donate_argnums=0).lower(weights, rows)


def _mesh(devices, **axes):
    auto = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=auto, devices=devices)


def _array(mesh, spec, shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


def _moved(weights, grads):
    return jax.tree.map(lambda weight, grad: weight - 0.1 * grad, weights, grads)


def _jitted(step, weights, mesh):
    shardings = (jax.tree.map(lambda array: array.sharding, weights), NamedSharding(mesh, P()))
    return jax.jit(step, donate_argnums=0, out_shardings=shardings)

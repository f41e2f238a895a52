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
    """The gradients of two matrices are summed over all ranks, within shard_map."""
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

    weights = (_of(mesh, P(), (WIDTH, HIDDEN)), _of(mesh, P(), (HIDDEN, WIDTH)))
    rows = _of(mesh, P("data"), (ROWS * len(devices), WIDTH))
    return jax.jit(step, donate_argnums=0).lower(weights, rows)


def fsdp(devices):
    """The weights of a scan over layers are cut up over all ranks and gathered for each layer."""
    mesh = _mesh(devices, data=len(devices))
    whole, rows_apart = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    def loss(weights, rows):
        def layer(held, own):
            up, down = jax.lax.with_sharding_constraint(own, (whole, whole))
            held = jax.nn.relu(held @ up) @ down
            return jax.lax.with_sharding_constraint(held, rows_apart), None

        found, _ = jax.lax.scan(layer, rows, weights)
        return jnp.mean(found.astype(jnp.float32) ** 2)

    def step(weights, rows):
        value, grads = jax.value_and_grad(loss)(weights, rows)
        return _moved(weights, grads), value

    weights = (
        _of(mesh, P(None, "data"), (LAYERS, WIDTH, HIDDEN), jnp.bfloat16),
        _of(mesh, P(None, "data"), (LAYERS, HIDDEN, WIDTH), jnp.bfloat16),
    )
    rows = _of(mesh, P("data"), (ROWS * len(devices), WIDTH), jnp.bfloat16)
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
        _of(mesh, P(None, "model"), (WIDTH, HIDDEN)),
        _of(mesh, P("model"), (HIDDEN, WIDTH)),
    )
    rows = _of(mesh, P("data"), (ROWS * len(devices), WIDTH))
    return _jitted(step, weights, mesh).lower(weights, rows)


def experts(devices):
    """A mixture of experts, one on each rank: rows go there by an all-to-all and come back."""
    mesh = _mesh(devices, expert=len(devices))

    def loss(own, rows):
        sent = jax.lax.all_to_all(rows.reshape(len(devices), -1, WIDTH), "expert", 0, 0)
        done = jax.nn.relu(sent.reshape(-1, WIDTH) @ own[0]).reshape(sent.shape)
        return jnp.mean(jax.lax.all_to_all(done, "expert", 0, 0) ** 2)

    specs = P("expert"), P("expert")

    @partial(jax.shard_map, mesh=mesh, in_specs=specs, out_specs=(P("expert"), P()))
    def step(weights, rows):
        value, grads = jax.value_and_grad(loss)(weights, rows)
        return _moved(weights, grads), jax.lax.pmean(value, "expert")

    weights = _of(mesh, P("expert"), (len(devices), WIDTH, WIDTH))
    rows = _of(mesh, P("expert"), (ROWS * len(devices), WIDTH))
    return jax.jit(step, donate_argnums=0).lower(weights, rows)


def _mesh(devices, **axes):
    auto = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=auto, devices=devices)


def _of(mesh, spec, shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


def _moved(weights, grads):
    return jax.tree.map(lambda weight, grad: weight - 0.1 * grad, weights, grads)


def _jitted(step, weights, mesh):
    given = (jax.tree.map(lambda one: one.sharding, weights), NamedSharding(mesh, P()))
    return jax.jit(step, donate_argnums=0, out_shardings=given)

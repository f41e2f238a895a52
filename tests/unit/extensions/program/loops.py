"""Programs with collectives beside and inside loops: what compilers split over computations.

Run by a worker alone, which has JAX; nothing here is imported by a test. What each program must
hold was counted by hand and is in `test_loops`.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, TURNS, OUTER = 1024, 6, 3

# What a program takes, of all ranks: the shape, and how it is cut up.
WEIGHTS = (TURNS, WIDTH, WIDTH), P()
CUT_WEIGHTS = (TURNS, WIDTH, WIDTH), P(None, "x")
ROWS = (WIDTH, WIDTH), P("x")
LARGE = (8 * WIDTH, WIDTH), P("x")


def gather_beside_scan(devices):
    """One all-gather before a scan over layers, its result used after the scan."""

    def step(weights, rows, large):
        gathered = _gathered(large)
        return _sum(_layers(rows, weights)) + _sum(gathered)

    return _lowered(devices, step, WEIGHTS, ROWS, LARGE)


def moves_beside_nested_loops(devices):
    """A gather and a permute precede nested loops; the inner loop has a sum of its own."""

    def step(weights, rows, large):
        gathered, passed = _gathered(large), _passed(large)

        def outer(held, _):
            def inner(held, layer):
                held = jnp.tanh(held @ layer)
                return held + lax.psum(held[:8, :128], "x")[:1, :1], None

            held, _ = lax.scan(inner, held, weights)
            return held, None

        held, _ = lax.scan(outer, rows, None, length=OUTER)
        return _sum(held) + _sum(gathered) + _sum(passed)

    return _lowered(devices, step, WEIGHTS, ROWS, LARGE)


def ring_in_a_loop(devices):
    """Each turn multiplies one part of the rows, while the next part arrives around a ring."""

    def step(weights, rows):
        def turn(at, held):
            part, total = held
            coming = _passed(part)
            return coming, total + jnp.tanh(part @ weights[at % TURNS])

        part, total = lax.fori_loop(0, len(devices), turn, (rows, jnp.zeros_like(rows)))
        return _sum(part) + _sum(total)

    return _lowered(devices, step, WEIGHTS, ROWS)


def gathers_of_the_next_layer(devices):
    """A scan gathers the next layer's weights while it computes with this layer's."""

    def step(weights, rows):
        def layer(held, own):
            rows, ready = held
            following = lax.all_gather(own, "x", axis=0, tiled=True)
            return (jnp.tanh(rows @ ready), following), None

        first = lax.all_gather(weights[0], "x", axis=0, tiled=True)
        (rows, last), _ = lax.scan(layer, (rows, first), weights[1:])
        return _sum(jnp.tanh(rows @ last))

    return _lowered(devices, step, CUT_WEIGHTS, ROWS)


def scatter_in_the_transpose(devices):
    """Layers gathered in a scan, whose transpose scatters; one more scatter precedes a scan."""

    def loss(weights, rows):
        def layer(held, own):
            return jnp.tanh(held @ lax.all_gather(own, "x", axis=0, tiled=True)), None

        held, _ = lax.scan(layer, rows, weights)
        return jnp.mean(held.astype(jnp.float32) ** 2)

    def step(weights, rows, layers, large):
        grads = jax.grad(loss)(weights, rows)
        scattered = lax.psum_scatter(large, "x", scatter_dimension=0, tiled=True)
        return _sum(grads) + _sum(_layers(rows, layers)) + _sum(scattered)

    return _lowered(devices, step, CUT_WEIGHTS, ROWS, WEIGHTS, LARGE)


def branches(devices):
    """A branch in a loop sums or gathers; a gather precedes the loop and another branch."""

    def step(weights, rows, large):
        gathered = _gathered(large)

        def layer(held, own):
            held = jnp.tanh(held @ own)
            is_positive = lax.psum(_sum(held), "x") > 0
            return lax.cond(is_positive, summed, and_all, held), None

        def summed(held):
            return held + lax.psum(held, "x")

        def and_all(held):
            return held + _sum(_gathered(held)).astype(held.dtype)

        held, _ = lax.scan(layer, rows, weights)
        held = lax.cond(_sum(weights) > 0, lambda h: _layers(h, weights), lambda h: h, held)
        return _sum(held) + _sum(gathered)

    return _lowered(devices, step, WEIGHTS, ROWS, LARGE)


def until_converged(devices):
    """A loop turns until a sum over all ranks is small; a gather and an all-to-all precede it."""

    def step(weights, rows, large):
        gathered = _gathered(large)
        sent = lax.all_to_all(large, "x", 0, 0, tiled=True)

        def more(held):
            return held[1] > 1e-3

        def turn(held):
            rows = jnp.tanh(held[0] @ weights[0])
            return rows, lax.psum(_sum(rows), "x")

        rows, left = lax.while_loop(more, turn, (rows, jnp.float32(1)))
        return _sum(rows) + left + _sum(gathered) + _sum(sent)

    return _lowered(devices, step, WEIGHTS, ROWS, LARGE)


def sum_beside_scan(devices):
    """One all-reduce before a scan over layers, its result used after the scan."""

    def step(weights, rows, large):
        summed = lax.psum(large, "x")
        return _sum(_layers(rows, weights)) + _sum(summed)

    return _lowered(devices, step, WEIGHTS, ROWS, LARGE)


def _layers(rows, weights):
    return lax.scan(lambda held, layer: (jnp.tanh(held @ layer), None), rows, weights)[0]


def _gathered(part):
    return lax.all_gather(part, "x", axis=0, tiled=True)


def _passed(part):
    ranks = lax.axis_size("x")
    return lax.ppermute(part, "x", [(rank, (rank + 1) % ranks) for rank in range(ranks)])


def _sum(values):
    return jnp.sum(values.astype(jnp.float32))


def _lowered(devices, step, *arguments):
    """Lower `step` for each rank's part of the arguments; each rank has a result of its own."""
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((len(devices),), ("x",), axis_types=auto, devices=devices)
    specs = tuple(spec for _, spec in arguments)
    mapped = jax.shard_map(
        lambda *own: step(*own).reshape(1),
        mesh=mesh,
        in_specs=specs,
        out_specs=P("x"),
        check_vma=False,
    )
    shapes = [
        jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, spec))
        for shape, spec in arguments
    ]
    return jax.jit(mapped).lower(*shapes)

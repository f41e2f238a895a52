"""Run and record training steps whose gradient has the size of a payload, in JAX and TensorFlow.

The network is a dense layer of float32 without a bias, as in the source of the TPU v2 table. All
ranks have all weights and a part of the batch, so a step has one all-reduce, of the gradient.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from studies import clusters

OUTPUTS = 512
ROWS_PER_RANK = 8
_LEARNING_RATE = 1e-3
_WARM_UP_STEPS, _TIMED_STEPS = 3, 20
# TensorFlow's profiler loses events that are still being written.
_LAST_EVENTS_S = 0.3


def time_and_record(
    framework: str, ranks: int, payloads: Sequence[int], folder: str
) -> list[float]:
    """Time and record training steps of each payload.

    Returns the median time of a step in seconds, for each of the `payloads`, which are in bytes.
    The recording of a payload is the folder `<framework>-<ranks>-<KiB>K` in `folder`. A single rank
    has nothing to reduce, and is not recorded.
    """
    prepare, profile = _FRAMEWORKS[framework]
    make_step = prepare(ranks)
    medians_s = []
    for payload in payloads:
        step = make_step(payload // OUTPUTS // 4)
        for _ in range(_WARM_UP_STEPS):
            step()
        medians_s.append(statistics.median(_time_step_s(step) for _ in range(_TIMED_STEPS)))
        if ranks == 1:
            continue
        with profile(str(Path(folder) / f"{framework}-{ranks}-{payload // 1024}K")):
            for _ in range(_TIMED_STEPS):
                step()
    return medians_s


def _time_step_s(step: Callable[[], None]) -> float:
    """Run a step, and return its time in seconds."""
    began_s = time.perf_counter()
    step()
    return time.perf_counter() - began_s


def _prepare_jax(ranks: int) -> Callable[[int], Callable[[], None]]:
    """Return a function that makes a step in JAX, for a number of inputs of the dense layer."""
    import jax
    import numpy as np

    jax.config.update("jax_num_cpu_devices", ranks)
    mesh = jax.make_mesh((ranks,), ("ranks",), devices=jax.devices()[:ranks])
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("ranks"))

    def loss(weights: Any, rows: Any, targets: Any) -> Any:
        return ((rows @ weights - targets) ** 2).mean()

    def update(weights: Any, rows: Any, targets: Any) -> Any:
        return weights - _LEARNING_RATE * jax.grad(loss)(weights, rows, targets)

    # XLA adds the all-reduce: the batch is split over the ranks, and the weights are not.
    train = jax.jit(update, donate_argnums=0, out_shardings=whole)

    def make_step(inputs: int) -> Callable[[], None]:
        count = ROWS_PER_RANK * ranks
        rows = jax.device_put(np.ones((count, inputs), np.float32), split)
        targets = jax.device_put(np.ones((count, OUTPUTS), np.float32), split)
        weights = [jax.device_put(np.ones((inputs, OUTPUTS), np.float32), whole)]

        def step() -> None:
            weights[0] = jax.block_until_ready(train(weights[0], rows, targets))

        return step

    return make_step


def _profile_jax(folder: str) -> Any:
    """Return a context manager under which JAX's profiler records into `folder`."""
    import jax

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    return jax.profiler.trace(folder, profiler_options=options)


def _prepare_tensorflow(ranks: int) -> Callable[[int], Callable[[], None]]:
    """Return a function that makes a step in TensorFlow, for a number of inputs of the layer."""
    import keras
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(clusters.device_names(ranks))

    def make_step(inputs: int) -> Callable[[], None]:
        with strategy.scope():
            layer = keras.layers.Dense(OUTPUTS, use_bias=False)
            model = keras.Sequential([keras.Input((inputs,)), layer])
            optimizer = keras.optimizers.SGD(_LEARNING_RATE)
            optimizer.build(model.trainable_variables)
        rows, targets = tf.ones((ROWS_PER_RANK, inputs)), tf.ones((ROWS_PER_RANK, OUTPUTS))

        def replica() -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(rows, training=True) - targets) ** 2) / ranks
            gradients = tape.gradient(loss, model.trainable_variables)
            # Keras adds the gradients of all replicas up before it applies them.
            optimizer.apply(gradients, model.trainable_variables)

        return tf.function(lambda: strategy.run(replica))  # type: ignore[no-any-return]

    return make_step


@contextlib.contextmanager
def _profile_tensorflow(folder: str) -> Any:
    """Record into `folder` with TensorFlow's profiler during the body of the `with`."""
    import tensorflow as tf

    options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
    tf.profiler.experimental.start(folder, options=options)
    try:
        yield
        time.sleep(_LAST_EVENTS_S)
    finally:
        tf.profiler.experimental.stop()


_FRAMEWORKS: dict[str, tuple[Callable[[int], Any], Callable[[str], Any]]] = {
    "jax": (_prepare_jax, _profile_jax),
    "tensorflow": (_prepare_tensorflow, _profile_tensorflow),
}

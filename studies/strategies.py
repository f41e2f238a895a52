"""Train a small network under each of the six strategies of `tf.distribute`.

The source ("Tensorflow Strategies on parallel computing") trains two convolutions and two dense
layers on handwritten digits, and publishes no times. Here the digits are scikit-learn's.
OneDeviceStrategy, MirroredStrategy, CentralStorageStrategy and TPUStrategy train with `model.fit`
of Keras 3. `model.fit` supports neither MultiWorkerMirroredStrategy nor ParameterServerStrategy,
which train with a loop written by hand. All ranks together have a batch of 128 pictures, so that
you can compare accuracies. A worker of ParameterServerStrategy updates by its own part of a batch.

Check: every strategy learns.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator
from typing import Any

from studies import clusters, digits, loops
from studies.processes import GroupMember, preload_modules, run_group
from studies.report import Report, table_lines

NAMES = {
    "one_device": "OneDeviceStrategy",
    "mirrored": "MirroredStrategy",
    "multi_worker_mirrored": "MultiWorkerMirroredStrategy",
    "central_storage": "CentralStorageStrategy",
    "parameter_server": "ParameterServerStrategy",
    "tpu": "TPUStrategy",
}
BATCH = 128
_RATE = 1e-3
_LEAST_ACCURACY = 0.6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this study."""
    parser.add_argument("--epochs", type=int, default=6, help="passes over the data (default 6)")
    parser.add_argument("--ranks", type=int, default=2, help="replicas or workers (default 2)")
    parser.add_argument(
        "--strategies", choices=NAMES, nargs="+", default=list(NAMES), help="train only with these"
    )


def report(options: argparse.Namespace) -> Report:
    """Train under each selected strategy, and return the report."""
    preload_modules("tensorflow", "keras", "studies.digits")
    results = {name: train(name, options.ranks, options.epochs) for name in options.strategies}
    head = ("strategy", "ranks", "first epoch, s", "median of later epochs, s", "accuracy")
    lines = table_lines(head, [_result_cells(name, result) for name, result in results.items()])
    failures = [
        f"{NAMES[name]} did not learn: accuracy {result['accuracy']:.2f}"
        for name, result in results.items()
        if result.get("accuracy", 1) < _LEAST_ACCURACY
    ]
    heading = f"{options.epochs} epochs, batch {BATCH}; accuracy on digits that were not trained:"
    return Report([heading, "", *lines], failures)


def _result_cells(name: str, result: Any) -> list[str]:
    """Return the cells of the table for the result of the strategy `name`."""
    if "skipped" in result:
        return [NAMES[name], "-", "-", "-", f"skipped: {result['skipped']}"]
    first_s, *later_s = result["epochs_s"]
    return [
        NAMES[name],
        str(result["ranks"]),
        f"{first_s:.2f}",
        f"{statistics.median(later_s):.3f}" if later_s else "-",
        f"{100 * result['accuracy']:.1f} %",
    ]


def train(name: str, ranks: int, epochs: int) -> Any:
    """Train under the strategy `name` in new processes.

    Returns the times of epochs, the accuracy and the number of ranks, or the reason why the
    strategy was skipped.
    """
    if name == "multi_worker_mirrored":
        members = [
            GroupMember(_train_in_workers, (epochs,), environment)
            for _, environment in clusters.make_tasks({"worker": ranks})
        ]
    elif name == "parameter_server":
        members = [
            GroupMember(_train_with_servers, (epochs,), environment)
            if job == "chief"
            else GroupMember(clusters.serve_until_killed, (), environment, is_server=True)
            for job, environment in clusters.make_tasks({"worker": ranks, "ps": 1, "chief": 1})
        ]
    else:
        members = [GroupMember(_train_with_fit, (name, ranks, epochs))]
    return next(result for result in run_group(members) if result)


def _make_strategy(name: str, ranks: int) -> Any:
    """Return the strategy `name`, which uses a single process; None for `tpu` without a TPU."""
    import tensorflow as tf

    if name == "tpu":
        if not tf.config.list_physical_devices("TPU_SYSTEM"):
            return None
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    devices = clusters.device_names(ranks)
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(devices[0])
    if name == "central_storage":
        return tf.distribute.experimental.CentralStorageStrategy(devices, "/cpu:0")
    return tf.distribute.MirroredStrategy(devices)


def _make_network() -> Any:
    """Return the convolutional network of the source, for pictures of 8 x 8 pixels."""
    import keras

    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def _make_optimizer() -> Any:
    import keras

    return keras.optimizers.RMSprop(_RATE)


def _train_with_fit(name: str, ranks: int, epochs: int) -> Any:
    """Train with `model.fit` under the strategy `name`, unless it needs a TPU that is missing."""
    strategy = _make_strategy(name, ranks)
    if strategy is None:
        return {"skipped": "no TPU is attached"}
    import keras

    (pictures, labels), test_data = digits.load_pictures()
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = _make_network()
        model.compile(
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            optimizer=_make_optimizer(),
            metrics=["accuracy"],
        )
    times_s: list[float] = []
    timer = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: times_s.append(time.perf_counter())
    )
    model.fit(pictures, labels, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=[timer])
    times_s.append(time.perf_counter())
    _, accuracy = model.evaluate(*test_data, batch_size=BATCH, verbose=0)
    epochs_s = [end_s - begin_s for begin_s, end_s in itertools.pairwise(times_s)]
    ranks = strategy.num_replicas_in_sync
    return {"epochs_s": epochs_s, "accuracy": float(accuracy), "ranks": ranks}


def _train_in_workers(epochs: int) -> Any:
    """Train synchronously in this process, one of several that share each batch equally."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    training_data, test_data = digits.load_pictures()
    data = tf.data.Dataset.from_tensor_slices(training_data)
    data = data.shuffle(len(training_data[1]), seed=0).batch(BATCH, drop_remainder=True)
    batches = strategy.experimental_distribute_dataset(data)
    return loops.train(
        strategy, _make_network, _make_optimizer, lambda epoch: batches, test_data, epochs
    )


def _train_with_servers(epochs: int) -> Any:
    """Train asynchronously, with this process as the coordinator of workers and servers.

    Each worker computes gradients, and updates the variables on the parameter servers by itself.
    """
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    workers = resolver.cluster_spec().num_tasks("worker")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    training_data, test_data = digits.load_pictures()

    def batches(epoch: int) -> Iterator[Any]:
        return digits.shuffled_batches(training_data, BATCH // workers, seed=epoch)

    result = loops.train(strategy, _make_network, _make_optimizer, batches, test_data, epochs)
    return {**result, "ranks": workers}

"""Train with parameter servers, synchronously and asynchronously, next to published rows.

The source ("mnist-distributed": TensorFlow 1.2.1, GTX 1080) trained two dense layers on 28 x 28
pictures in batches of 100, in one process, and with one or two parameter servers. Here every
process runs on this machine, and the pictures are the digits of scikit-learn, enlarged. Therefore
you can compare only the ratios to the single process. Asynchronous rows use
ParameterServerStrategy. Synchronous rows use SyncReplicasOptimizer of `tf.compat.v1`, because
TensorFlow 2 has only asynchronous servers.

Checks: an asynchronous row makes an update for every gradient. A synchronous row makes an update
for the gradients of all workers together. Every row learns.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies import clusters, digits, loops
from studies.processes import GroupMember, preload_modules, run_group
from studies.report import Report, table_lines

BATCH = 100
RATE = 0.125
HIDDEN = 128
_POLL_S = 0.1
_LEAST_ACCURACY = 0.6


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of the published table: the numbers of processes, and the published results.

    `epoch_s` is the time of an epoch in seconds, the mean over workers if the source has a time for
    each worker. `accuracy` is a text.
    """

    servers: int
    workers: int
    is_synchronous: bool
    epoch_s: float
    accuracy: str


SINGLE = "single process"
ROWS = {
    SINGLE: PublishedRow(0, 1, False, 1.3, "72 %"),
    "1 server, 1 worker, asynchronous": PublishedRow(1, 1, False, 3.8, "72 %"),
    "1 server, 2 workers, asynchronous": PublishedRow(1, 2, False, 5.45, "80 %"),
    "1 server, 2 workers, synchronous": PublishedRow(1, 2, True, 5.35, "72 %"),
    "2 servers, 2 workers, asynchronous": PublishedRow(2, 2, False, 6.6, "80 %"),
    "2 servers, 2 workers, synchronous": PublishedRow(2, 2, True, 6.9, "72 %"),
    "1 server, 3 workers, asynchronous": PublishedRow(1, 3, False, 6.03, "82-83 %"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this study."""
    parser.add_argument("--epochs", type=int, default=10, help="epochs of each worker (default 10)")


def report(options: argparse.Namespace) -> Report:
    """Train with the processes of each row, and return the report."""
    preload_modules("tensorflow", "keras", "studies.digits")
    results = {name: train_row(row, options.epochs) for name, row in ROWS.items()}
    single_s = _median_epoch_s(results[SINGLE])
    head = ["row", "published epoch, s", "over single", "published accuracy"]
    head += ["epoch here, s", "over single here", "accuracy here", "gradients", "updates"]
    rows = [
        [
            name,
            f"{row.epoch_s:g}",
            f"{row.epoch_s / ROWS[SINGLE].epoch_s:.1f}",
            row.accuracy,
            f"{_median_epoch_s(results[name]):.3f}",
            f"{_median_epoch_s(results[name]) / single_s:.1f}",
            f"{100 * results[name]['accuracy']:.1f} %",
            str(results[name]["gradients"]),
            str(results[name]["updates"]),
        ]
        for name, row in ROWS.items()
    ]
    heading = f"{options.epochs} epochs by each worker, batches of {BATCH}; median epoch:"
    return Report([heading, "", *table_lines(head, rows)], _failed_checks(results))


def _failed_checks(results: dict[str, Any]) -> list[str]:
    """Return a sentence for each check that does not hold, from the results by row."""
    failures = []
    for name, result in results.items():
        row = ROWS[name]
        expected = result["gradients"] // (row.workers if row.is_synchronous else 1)
        if result["updates"] != expected:
            failures.append(f"{name}: expected {expected} updates, got {result['updates']}")
        if result["accuracy"] < _LEAST_ACCURACY:
            failures.append(f"{name}: did not learn: accuracy {result['accuracy']:.2f}")
    return failures


def _median_epoch_s(result: Any) -> float:
    """Return the median time of an epoch in seconds, without the first epoch, which compiles."""
    epochs_s: list[float] = result["epochs_s"]
    return statistics.median(epochs_s[1:] or epochs_s)


def train_row(row: PublishedRow, epochs: int) -> Any:
    """Train with the workers and servers of a row, each in a new process.

    Returns the times of epochs, the accuracy, and the numbers of updates and gradients.
    """
    if not row.servers:
        return run_group([GroupMember(_train_with_optional_servers, (epochs, False))])[0]
    counts = {"worker": row.workers, "ps": row.servers}
    if not row.is_synchronous:
        counts["chief"] = 1
    members = []
    for job, environment in clusters.make_tasks(counts):
        if job == "ps" or (job == "worker" and not row.is_synchronous):
            members.append(
                GroupMember(clusters.serve_until_killed, (), environment, is_server=True)
            )
        elif row.is_synchronous:
            members.append(GroupMember(_train_synchronously, (epochs,), environment))
        else:
            members.append(GroupMember(_train_with_optional_servers, (epochs, True), environment))
    return next(result for result in run_group(members) if result)


def _load_enlarged_digits() -> list[tuple[Any, Any]]:
    """Return the digits for training and for testing, each as pictures and labels.

    A picture is enlarged to 28 x 28 pixels, and is a row of 784 numbers.
    """
    enlarged = []
    for pictures, labels in digits.load_pictures():
        larger = np.kron(pictures[..., 0], np.ones((1, 3, 3), np.float32))
        rows = np.pad(larger, ((0, 0), (2, 2), (2, 2))).reshape(len(pictures), -1)
        enlarged.append((rows, labels))
    return enlarged


def _initial_weights() -> list[Any]:
    """Return the weights and biases of both layers, the same random values for each row."""
    generator = np.random.default_rng(0)
    shapes = ((28 * 28, HIDDEN), (HIDDEN, 10))
    hidden, output = (generator.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes)
    weights = (hidden, np.zeros(HIDDEN), output, np.zeros(10))
    return [value.astype(np.float32) for value in weights]


def _train_with_optional_servers(epochs: int, has_servers: bool) -> Any:
    """Train in this process alone, or asynchronously with other processes.

    If `has_servers`, this process coordinates workers and parameter servers.
    """
    import keras
    import tensorflow as tf

    strategy, workers = tf.distribute.get_strategy(), 1
    if has_servers:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        workers = resolver.cluster_spec().num_tasks("worker")
        strategy = tf.distribute.ParameterServerStrategy(resolver)
    training_data, test_data = _load_enlarged_digits()

    def network() -> Any:
        inputs, hidden = keras.Input((28 * 28,)), keras.layers.Dense(HIDDEN, activation="relu")
        model = keras.Sequential([inputs, hidden, keras.layers.Dense(10)])
        model.set_weights(_initial_weights())
        return model

    def batches(epoch: int) -> Iterator[Any]:
        orders = [
            digits.shuffled_batches(training_data, BATCH, seed=(epoch, worker))
            for worker in range(workers)
        ]
        return itertools.chain.from_iterable(orders)

    def optimizer() -> Any:
        return keras.optimizers.SGD(RATE)

    return loops.train(strategy, network, optimizer, batches, test_data, epochs)


def _train_synchronously(epochs: int) -> Any:
    """Train in this process as a worker whose gradients are averaged with all other workers."""
    import tensorflow as tf

    server, resolver = clusters.start_server()
    cluster, worker = resolver.cluster_spec(), resolver.task_id
    device, workers = f"/job:worker/task:{worker}", cluster.num_tasks("worker")
    training_data, test_data = _load_enlarged_digits()
    with tf.Graph().as_default():
        setter = tf.compat.v1.train.replica_device_setter(worker_device=device, cluster=cluster)
        with tf.compat.v1.device(setter):
            optimizer, batch, step, logits, updates = _build_synchronous_graph(workers)
        # Without filters a session needs all workers, and a worker that ends would stop the others.
        configuration = tf.compat.v1.ConfigProto(device_filters=["/job:ps", device])
        # With initial tokens a worker could be late for an update, and its gradient be dropped.
        hook = optimizer.make_session_run_hook(is_chief=worker == 0, num_tokens=0)
        session = tf.compat.v1.train.MonitoredTrainingSession(
            server.target, is_chief=worker == 0, hooks=[hook], config=configuration
        )
        epochs_s, gradients = [], 0
        for epoch in range(epochs):
            began_s = time.perf_counter()
            for values in digits.shuffled_batches(training_data, BATCH, seed=(epoch, worker)):
                session.run(step, dict(zip(batch, values, strict=True)))
                gradients += workers
            epochs_s.append(time.perf_counter() - began_s)
        # Worker 0 makes the updates, so it must not end before the last update of other workers.
        while (count := int(session.run(updates))) < gradients // workers:
            time.sleep(_POLL_S)
        accuracy = loops.compute_accuracy(
            session.run(logits, {batch[0]: test_data[0]}), test_data[1]
        )
    result = {"epochs_s": epochs_s, "accuracy": accuracy}
    return {**result, "gradients": gradients, "updates": count}


def _build_synchronous_graph(workers: int) -> tuple[Any, Any, Any, Any, Any]:
    """Build the graph of a synchronous training step in TensorFlow 1.

    Returns the optimizer, the placeholders for pictures and labels, the operation of a step, the
    logits, and the variable that counts updates.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    variables = [
        v1.get_variable(f"weights{index}", initializer=value)
        for index, value in enumerate(_initial_weights())
    ]
    updates = v1.train.get_or_create_global_step()
    pictures, labels = (
        v1.placeholder(tf.float32, (None, 28 * 28)),
        v1.placeholder(tf.int32, (None,)),
    )
    optimizer = v1.train.SyncReplicasOptimizer(
        v1.train.GradientDescentOptimizer(RATE),
        replicas_to_aggregate=workers,
        total_num_replicas=workers,
    )
    hidden = tf.nn.relu(tf.matmul(pictures, variables[0]) + variables[1])
    logits = tf.matmul(hidden, variables[2]) + variables[3]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    step = optimizer.minimize(tf.reduce_mean(losses), global_step=updates)
    return optimizer, (pictures, labels), step, logits, updates

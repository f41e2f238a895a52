"""A training loop for strategies of `tf.distribute` that `model.fit` does not support."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


def train(
    strategy: Any,
    make_network: Callable[[], Any],
    make_optimizer: Callable[[], Any],
    batches: Callable[[int], Iterable[Any]],
    test_data: Any,
    epochs: int,
) -> dict[str, Any]:
    """Train a Keras network under a strategy of `tf.distribute`.

    With ParameterServerStrategy the steps are asynchronous: a free worker takes the next step.

    Args:
        strategy: The strategy.
        make_network: Makes the network.
        make_optimizer: Makes the optimizer.
        batches: Returns the batches of pictures and labels of an epoch, by its number.
        test_data: Pictures and labels for testing.
        epochs: The number of epochs.

    Returns:
        The time of each epoch in seconds, the accuracy on the pictures for testing, and the numbers
        of gradients, of updates of the variables, and of ranks.

    """
    import keras
    import tensorflow as tf

    coordinator = None
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model, optimizer = make_network(), make_optimizer()
        optimizer.build(model.trainable_variables)
        updates = tf.Variable(np.int64(0), aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    step = _make_step(strategy, model, optimizer, updates)
    epochs_s, gradients = [], 0
    for epoch in range(epochs):
        began_s = time.perf_counter()
        for batch in batches(epoch):
            gradients += 1
            if coordinator is None:
                step(*batch)
            else:
                coordinator.schedule(step, args=tuple(map(tf.constant, batch)))
        if coordinator is not None:
            coordinator.join()
        epochs_s.append(time.perf_counter() - began_s)
    accuracy = compute_accuracy(model(test_data[0]), test_data[1])
    result = {"epochs_s": epochs_s, "accuracy": accuracy, "gradients": gradients}
    return {**result, "updates": int(updates.numpy()), "ranks": strategy.num_replicas_in_sync}


def _make_step(strategy: Any, model: Any, optimizer: Any, updates: Any) -> Any:
    """Return a function that trains `model` with a batch, and counts the updates in `updates`."""
    import keras
    import tensorflow as tf

    ranks = strategy.num_replicas_in_sync

    def replica(pictures: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            logits = model(pictures, training=True)
            losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            loss = tf.reduce_mean(losses) / ranks
        gradients = tape.gradient(loss, model.trainable_variables)
        # Keras adds the gradients of all replicas up before it applies them.
        optimizer.apply(gradients, model.trainable_variables)
        updates.assign_add(1)

    return tf.function(lambda *batch: strategy.run(replica, args=batch))


def compute_accuracy(logits: Any, labels: Any) -> float:
    """Return the fraction of pictures whose largest logit is the logit of their label."""
    return float((np.argmax(logits, axis=1) == labels).mean())

"""Training with TensorFlow 2: the nets, epochs by one loop and clock, ways to make their steps."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from busbw.model.training import Net, TrainingRequest

from .. import training
from ..training import Course, Examples
from . import proof
from .program import cross_entropy
from .proof import Reductions

Values = Mapping[str, Any]

# The arguments of one step: the inputs and labels of a share, or an iterator of the worker's own.
_Given = tuple[Any, ...]

_ALONE = "tf.function, no strategy"
_SHARES = (
    "tf.distribute.ParameterServerStrategy: "
    "tf.distribute.coordinator.ClusterCoordinator, schedule, join"
)
_DATASETS = "tf.distribute.experimental.ParameterServerStrategy, ClusterCoordinator"


class AbstractSteps(ABC):
    """A net's steps in one way. A batch is what `prepared` returns.

    Of all `replicas`, `local_replicas` are this process's own or, without any, work for it.
    `global_step` is what TensorFlow counted when copies were taken; None where it counts nothing.
    """

    api: str
    replicas: int
    local_replicas: int
    variables: Mapping[str, Any]
    global_step: int | None = None

    @abstractmethod
    def prepared(self, epoch: int) -> Iterable[Any]:
        """The epoch's batches, ready to be worked on."""

    def first(self, batch: Any) -> Reductions:
        """Run the very first step, with tracing; its reductions, by default none.

        Raises MeasuringError NOT_A_COLLECTIVE.
        """
        self.step(batch)
        self.wait()
        return Reductions()

    @abstractmethod
    def step(self, batch: Any) -> None:
        """One step: a gradient of each of the local replicas."""

    @abstractmethod
    def wait(self) -> None:
        """Until all steps are done."""

    def check_first(self, copies: Mapping[str, Values]) -> None:  # noqa: B027
        """Compare `copies` after the first step with what they should be, where that is known.

        It is not where other workers may be a step ahead. Raises MeasuringError WRONG_RESULT.
        """

    @abstractmethod
    def copies(self) -> Mapping[str, Values]:
        """The values of all variables, by whose they are: ``all``, or a replica of this process."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What one process saw; `copies` are the values at the end."""

    epochs_s: tuple[float, ...]
    compile_s: float
    gradients: int
    first_digests: Mapping[str, str]
    copies: Mapping[str, Values]
    reductions: Reductions


def trained(request: TrainingRequest, steps: AbstractSteps) -> Trained:
    """All epochs, by the monotonic clock; what `steps` prepares is made before it runs."""
    epochs_s = []
    count = 0
    for epoch in range(request.epochs):
        batches = iter(steps.prepared(epoch))
        begun_s = time.perf_counter()
        if epoch == 0:
            reductions = steps.first(next(batches))
            count += 1
            compile_s = time.perf_counter() - begun_s
            first_copies = steps.copies()
            steps.check_first(first_copies)
            begun_s = time.perf_counter() - compile_s
        for batch in batches:
            steps.step(batch)
            count += 1
        steps.wait()
        epochs_s.append(time.perf_counter() - begun_s)
        print(f"epoch {epoch + 1}: {epochs_s[-1]:.3f} s", flush=True)
    return Trained(
        epochs_s=tuple(epochs_s),
        compile_s=compile_s,
        gradients=count * steps.local_replicas,
        first_digests=digests(first_copies),
        copies=steps.copies(),
        reductions=reductions,
    )


def digests(copies: Mapping[str, Values]) -> dict[str, str]:
    return {name: training.digest(values) for name, values in copies.items()}


def variables_of(request: TrainingRequest) -> dict[str, Any]:
    values = training.starting_values(request)
    return {name: tf.Variable(value, name=name) for name, value in values.items()}


def loss_of(net: Net, variables: Mapping[str, Any], inputs: Any, labels: Any) -> Any:
    """By way of the labels, so that the counter's gradient comes from each rank's examples."""
    shown = tf.reduce_mean(tf.cast(labels >= 0, tf.float32))
    mean = cross_entropy(_logits(net, variables, inputs), labels)
    return mean - shown * variables[training.COUNTER]


def gradients_of(net: Net, variables: Mapping[str, Any], inputs: Any, labels: Any) -> list[Any]:
    with tf.GradientTape() as tape:
        loss = loss_of(net, variables, inputs, labels)
    found: list[Any] = tape.gradient(loss, list(variables.values()))
    return found


def goodness(net: Net, values: Mapping[str, Any], examples: Examples) -> tuple[float, float]:
    logits = _logits(net, values, examples.inputs)
    named = tf.argmax(logits, axis=1).numpy()
    mean = cross_entropy(logits, examples.labels)
    return float((named == examples.labels).mean()), float(mean)


def _logits(net: Net, variables: Mapping[str, Any], inputs: Any) -> Any:
    flat = _convolved(variables, inputs) if net is Net.CNN else tf.cast(inputs, tf.float32) / 255.0
    hidden = tf.nn.relu(flat @ variables["hidden_weights"] + variables["hidden_biases"])
    return hidden @ variables["weights"] + variables["biases"]


def _convolved(variables: Mapping[str, Any], inputs: Any) -> Any:
    halved = inputs
    for layer in ("first", "second"):
        filtered = tf.nn.conv2d(halved, variables[f"{layer}_filters"], strides=1, padding="SAME")
        bright = tf.nn.relu(filtered + variables[f"{layer}_biases"])
        halved = tf.nn.max_pool2d(bright, ksize=2, strides=2, padding="VALID")
    return tf.reshape(halved, [-1, math.prod(halved.shape[1:])])


class SynchronousSteps(AbstractSteps):
    """By the mean gradient of all ranks; `worker` is this process's index among others."""

    def __init__(self, course: Course, strategy: Any, *, api: str, worker: int | None) -> None:
        self._course = course
        self._strategy = strategy
        self._prefix = "" if worker is None else f"worker {worker}, "
        self._first_rank = worker or 0
        self.api = f"{api}: merge_call, batch_reduce_to, update"
        self.replicas = int(strategy.num_replicas_in_sync)
        self.local_replicas = len(strategy.extended.worker_devices)
        with strategy.scope():
            self.variables = variables_of(course.request)
        self._step = tf.function(
            lambda batch: strategy.run(self._replica, args=batch), autograph=False
        )

    def prepared(self, epoch: int) -> list[Any]:
        return [self._shared_out(shares) for shares in self._course.batches(epoch)]

    def _shared_out(self, shares: Sequence[Examples]) -> Any:
        devices = self._strategy.extended.worker_devices

        def share(context: Any) -> tuple[Any, Any]:
            rank = context.replica_id_in_sync_group
            with tf.device(devices[rank - self._first_rank]):
                # A constant alone stays where it was made.
                return tf.identity(shares[rank].inputs), tf.identity(shares[rank].labels)

        return self._strategy.experimental_distribute_values_from_function(share)

    def first(self, batch: Any) -> Reductions:
        traced = self._step.get_concrete_function(batch).graph

        def done() -> None:
            self.step(batch)
            self.wait()

        executed = proof.executed_graphs(done)
        request = self._course.request
        return proof.reductions(request, self.local_replicas, executed, traced)

    def step(self, batch: Any) -> None:
        self._step(batch)

    def wait(self) -> None:
        """A value is returned when it is ready."""
        for copy in self._local(self.variables[training.COUNTER]):
            copy.numpy()

    def check_first(self, copies: Mapping[str, Values]) -> None:
        request = self._course.request
        start = training.starting_values(request)
        variables = {name: tf.Variable(value) for name, value in start.items()}
        shares = next(self._course.batches(0))
        inputs = tf.concat([share.inputs for share in shares], axis=0)
        labels = tf.concat([share.labels for share in shares], axis=0)
        found = gradients_of(request.net, variables, inputs, labels)
        gradients = {name: gradient.numpy() for name, gradient in zip(variables, found)}
        training.check_first(copies, start, gradients, request.rate)

    def copies(self) -> dict[str, Values]:
        replicas = [
            dict(zip(self.variables, (one.numpy() for one in copy)))
            for copy in zip(*map(self._local, self.variables.values()))
        ]
        if not self._course.request.has_copies:
            return {"all": replicas[0]}
        return {f"{self._prefix}replica {at}": values for at, values in enumerate(replicas)}

    def _local(self, variable: Any) -> Sequence[Any]:
        found: Sequence[Any] = self._strategy.experimental_local_results(variable)
        return found

    def _replica(self, inputs: Any, labels: Any) -> None:
        net = self._course.request.net
        gradients = gradients_of(net, self.variables, inputs, labels)
        tf.distribute.get_replica_context().merge_call(self._update, args=tuple(gradients))

    def _update(self, strategy: Any, *gradients: Any) -> None:
        variables = list(self.variables.values())
        total = tf.distribute.ReduceOp.SUM
        sums = strategy.extended.batch_reduce_to(total, list(zip(gradients, variables)))
        rate, ranks = self._course.request.rate, self.replicas

        def apply(variable: Any, gradient: Any) -> None:
            variable.assign_sub(rate * (gradient / ranks))

        for variable, gradient in zip(variables, sums):
            strategy.extended.update(variable, apply, args=(gradient,), group=False)


class SeparateSteps(AbstractSteps):
    """Each rank's gradient is a separate update; an epoch ends when all are done.

    With `cluster`, a resolver, as TF 2's coordinator: variables are on servers, and whichever
    worker is free takes the next step. Without, one rank in this process and no strategy. The
    perceptron reads a dataset on each worker and counts a global step, as training with servers
    usually does; the other net's batches are shared out.
    """

    def __init__(self, course: Course, cluster: Any = None) -> None:
        self._course = course
        self._feeds_itself = course.request.net is Net.PERCEPTRON
        self._strategy = tf.distribute.get_strategy()
        self._coordinator: Any = None
        self.replicas, self.api = 1, _ALONE
        if cluster is not None:
            self._strategy = tf.distribute.ParameterServerStrategy(cluster)
            self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
            self.replicas = cluster.cluster_spec().num_tasks("worker")
            self.api = _DATASETS if self._feeds_itself else _SHARES
        self.local_replicas = self.replicas
        with self._strategy.scope():
            self.variables = variables_of(course.request)
            # What TF 1 calls the global step.
            counted = tf.Variable(np.int64(0), name="global_step") if self._feeds_itself else None
        self._count: Any = counted
        if self._feeds_itself:
            self._iterator = iter(self._dataset())
        self._step = tf.function(self._one, autograph=False)

    def _dataset(self) -> Any:
        """With a coordinator one for each worker."""
        shown, batch = self._course.shown, self._course.request.batch

        def made() -> Any:
            examples = tf.data.Dataset.from_tensor_slices((shown.inputs, shown.labels))
            return examples.shuffle(len(shown.labels)).repeat().batch(batch)

        one = self._coordinator is None
        return made() if one else self._coordinator.create_per_worker_dataset(made)

    def prepared(self, epoch: int) -> Iterable[list[_Given]]:
        """Shares on the host, since any worker may take one; or iterators."""
        if self._feeds_itself:
            return [[(self._iterator,)] * self.replicas] * self._course.steps
        return [
            [(tf.constant(share.inputs), tf.constant(share.labels)) for share in shares]
            for shares in self._course.batches(epoch)
        ]

    def step(self, batch: list[_Given]) -> None:
        for given in batch:
            if self._coordinator is None:
                self._step(*given)
            else:
                self._coordinator.schedule(self._step, args=given)

    def wait(self) -> None:
        if self._coordinator is None:
            self.variables[training.COUNTER].numpy()
        else:
            self._coordinator.join()

    def copies(self) -> dict[str, Values]:
        if self._count is not None:
            self.global_step = int(self._count.numpy())
        return {"all": {name: variable.numpy() for name, variable in self.variables.items()}}

    def _one(self, *given: Any) -> None:
        self._strategy.run(self._replica, args=next(given[0]) if self._feeds_itself else given)

    def _replica(self, inputs: Any, labels: Any) -> None:
        request = self._course.request
        gradients = gradients_of(request.net, self.variables, inputs, labels)
        for variable, gradient in zip(self.variables.values(), gradients):
            variable.assign_sub(request.rate * gradient)
        if self._count is not None:
            self._count.assign_add(1)

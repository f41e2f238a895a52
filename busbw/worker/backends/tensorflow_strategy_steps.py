"""Epochs of training under a strategy of `tf.distribute`, and steps whose update all ranks share.

What makes a strategy is in `tensorflow_strategies`, steps without a common update in
`tensorflow_strategy_servers`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from busbw.model import StrategyTraining

from . import convolutional, tensorflow_cnn, tensorflow_proof, tensorflow_reductions
from .examples import Course, Examples
from .tensorflow_reductions import Reductions

Values = Mapping[str, Any]


class AbstractSteps(ABC):
    """A net's steps under a strategy. A batch is whatever `prepared` makes of it.

    Of all `replicas`, `local_replicas` are this process's own or, without any, work for it.
    """

    api: str
    replicas: int
    local_replicas: int

    @abstractmethod
    def prepared(self, epoch: int) -> Sequence[Any]:
        """The epoch's batches, ready to be worked on."""

    @abstractmethod
    def first(self, batch: Any) -> Reductions:
        """The first step of all, with tracing, done; and what it holds.

        Raises MeasuringError NOT_A_COLLECTIVE.
        """

    @abstractmethod
    def step(self, batch: Any) -> None:
        """One step, or as many as there are ranks where each updates by itself."""

    @abstractmethod
    def wait(self) -> None:
        """Until all steps are done."""

    @abstractmethod
    def check_first(self, copies: Mapping[str, Values]) -> None:
        """Compare `copies` after the first step with what they should be, where that is known.

        Raises MeasuringError WRONG_RESULT.
        """

    @abstractmethod
    def copies(self) -> Mapping[str, Values]:
        """The values of all variables, by whose they are: ``all``, or a replica of this process."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What one process saw; `copies` are the values at the end."""

    epochs_s: tuple[float, ...]
    compile_s: float
    first_digests: Mapping[str, str]
    copies: Mapping[str, Values]
    reductions: Reductions


def trained(training: StrategyTraining, steps: AbstractSteps) -> Trained:
    """All epochs, by the monotonic clock; batches are made before it runs."""
    epochs_s = []
    for epoch in range(training.epochs):
        batches = iter(steps.prepared(epoch))
        begun_s = time.perf_counter()
        if epoch == 0:
            reductions = steps.first(next(batches))
            compile_s = time.perf_counter() - begun_s
            first_copies = steps.copies()
            steps.check_first(first_copies)
            begun_s = time.perf_counter() - compile_s
        for batch in batches:
            steps.step(batch)
        steps.wait()
        epochs_s.append(time.perf_counter() - begun_s)
        print(f"epoch {epoch + 1}: {epochs_s[-1]:.3f} s", flush=True)
    return Trained(
        epochs_s=tuple(epochs_s),
        compile_s=compile_s,
        first_digests=digests(first_copies),
        copies=steps.copies(),
        reductions=reductions,
    )


def digests(copies: Mapping[str, Values]) -> dict[str, str]:
    """By whose copy it is."""
    return {name: convolutional.digest(values) for name, values in copies.items()}


def variables_of(training: StrategyTraining) -> dict[str, Any]:
    """The net's variables with their starting values; where, is for the strategy's scope to say."""
    values = convolutional.starting_values(training)
    return {name: tf.Variable(value, name=name) for name, value in values.items()}


class SynchronousSteps(AbstractSteps):
    """Each update is by the mean gradient of all ranks, which the strategy adds up.

    `place` comes before the names of replicas, such as ``worker 1, ``, where there are others in
    other processes; `first_rank` is the rank of this process's first.
    """

    def __init__(
        self, course: Course, strategy: Any, *, api: str, place: str = "", first_rank: int = 0
    ) -> None:
        self._course = course
        self._strategy = strategy
        self._place = place
        self._first_rank = first_rank
        self.api = f"{api}: merge_call, batch_reduce_to, update"
        self.replicas = int(strategy.num_replicas_in_sync)
        self.local_replicas = len(strategy.extended.worker_devices)
        with strategy.scope():
            self._variables = variables_of(course.training)
        self._step = tf.function(self._whole_step, autograph=False)

    def prepared(self, epoch: int) -> list[Any]:
        """Each rank's share on the device of that rank."""
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
        """Traced, recorded while it is executed, and both looked at."""
        traced = self._step.get_concrete_function(batch).graph

        def done() -> None:
            self.step(batch)
            self.wait()

        executed = tensorflow_proof.executed_graphs(done)
        training = self._course.training
        return tensorflow_reductions.found(training, self.local_replicas, executed, traced)

    def step(self, batch: Any) -> None:
        """One call, as users have it."""
        self._step(batch)

    def wait(self) -> None:
        """A value is handed out when it is there."""
        for copy in self._local(self._variables[convolutional.COUNTER]):
            copy.numpy()

    def check_first(self, copies: Mapping[str, Values]) -> None:
        """The whole batch in one piece, without the strategy, is what its sum must come to."""
        training = self._course.training
        start = convolutional.starting_values(training)
        variables = {name: tf.Variable(value) for name, value in start.items()}
        shares = next(self._course.batches(0))
        inputs = tf.concat([share.inputs for share in shares], axis=0)
        labels = tf.concat([share.labels for share in shares], axis=0)
        found = tensorflow_cnn.gradients(variables, inputs, labels)
        gradients = {name: gradient.numpy() for name, gradient in zip(variables, found)}
        convolutional.check_first(copies, start, gradients, training.rate)

    def copies(self) -> dict[str, Values]:
        """Each replica's own, where it has any."""
        replicas = [
            dict(zip(self._variables, (one.numpy() for one in copy)))
            for copy in zip(*map(self._local, self._variables.values()))
        ]
        if not self._course.training.strategy.is_mirrored:
            return {"all": replicas[0]}
        return {f"{self._place}replica {at}": values for at, values in enumerate(replicas)}

    def _local(self, variable: Any) -> Sequence[Any]:
        found: Sequence[Any] = self._strategy.experimental_local_results(variable)
        return found

    def _whole_step(self, batch: Any) -> None:
        self._strategy.run(self._replica, args=batch)

    def _replica(self, inputs: Any, labels: Any) -> None:
        gradients = tensorflow_cnn.gradients(self._variables, inputs, labels)
        tf.distribute.get_replica_context().merge_call(self._update, args=tuple(gradients))

    def _update(self, strategy: Any, *gradients: Any) -> None:
        variables = list(self._variables.values())
        total = tf.distribute.ReduceOp.SUM
        sums = strategy.extended.batch_reduce_to(total, list(zip(gradients, variables)))
        rate, ranks = self._course.training.rate, self.replicas

        def apply(variable: Any, gradient: Any) -> None:
            variable.assign_sub(rate * (gradient / ranks))

        for variable, gradient in zip(variables, sums):
            strategy.extended.update(variable, apply, args=(gradient,), group=False)

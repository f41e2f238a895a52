"""Handwritten digits as they are handed over in a file, and who is shown which of them when.

Numpy only, and no net. Every strategy sees the same batches: only how they are shared out differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from busbw.model import (
    EXAMPLE_BYTES,
    EXAMPLE_CLASSES,
    EXAMPLE_SIDE,
    FailureKind,
    StrategyTraining,
)

from .base import MeasuringError

_BRIGHTEST = 16


@dataclass(frozen=True)
class Examples:
    """`inputs` are pictures of 8 x 8 with one channel, float32 from 0 to 1; and their `labels`."""

    inputs: Any
    labels: Any

    def chosen(self, which: Any) -> Examples:
        """Those at the places of `which`, in its order."""
        return Examples(self.inputs[which], self.labels[which])


@dataclass(frozen=True)
class Course:
    """What a training goes over: examples that are shown, and those kept for the accuracy."""

    training: StrategyTraining
    shown: Examples
    unseen: Examples

    @property
    def steps(self) -> int:
        """Whole batches in an epoch."""
        return len(self.shown.labels) // self.training.batch

    def batches(self, epoch: int) -> Iterator[list[Examples]]:
        """The epoch's batches, each as the shares of all ranks: a permutation of its own."""
        training = self.training
        order = np.random.default_rng([training.seed, epoch]).permutation(len(self.shown.labels))
        for batch in order[: self.steps * training.batch].reshape(self.steps, training.ranks, -1):
            yield [self.shown.chosen(share) for share in batch]


def course(training: StrategyTraining) -> Course:
    """The examples in `training.examples`.

    Raises MeasuringError UNAVAILABLE for a file that is damaged or too small, and where a batch
    cannot be shared out evenly.
    """
    if training.ranks < 1 or training.batch < 1 or training.batch % training.ranks:
        raise _refused(
            f"a batch of {training.batch} cannot be shared out evenly to {training.ranks} ranks"
        )
    found = _read(training.examples)
    shown = len(found.labels) - training.unseen
    if training.unseen < 1 or shown < training.batch:
        raise _refused(
            f"{training.examples} has {len(found.labels)} examples: too few for a batch of "
            f"{training.batch} beside {training.unseen} unseen ones"
        )
    return Course(training, found.chosen(slice(shown)), found.chosen(slice(shown, None)))


def _read(path: str) -> Examples:
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise _refused(f"the examples cannot be read: {path} is no file")
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise _refused(f"the examples cannot be read: {error}") from error
    if len(content) % EXAMPLE_BYTES:
        raise _refused(
            f"{path} is damaged: {len(content)} bytes are no whole number of examples of "
            f"{EXAMPLE_BYTES}"
        )
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, EXAMPLE_BYTES)
    pixels, labels = rows[:, :-1], rows[:, -1]
    wrong = np.flatnonzero((labels >= EXAMPLE_CLASSES) | (pixels > _BRIGHTEST).any(axis=1))
    if len(wrong):
        raise _refused(
            f"{path} is damaged: example {wrong[0]} has label {labels[wrong[0]]} and pixels up to "
            f"{pixels[wrong[0]].max()}, at most {EXAMPLE_CLASSES - 1} and {_BRIGHTEST} are allowed"
        )
    inputs = pixels.astype(np.float32) / np.float32(_BRIGHTEST)
    return Examples(inputs.reshape(-1, EXAMPLE_SIDE, EXAMPLE_SIDE, 1), labels.astype(np.int32))


def _refused(message: str) -> MeasuringError:
    return MeasuringError(FailureKind.UNAVAILABLE, message)

"""What a net learns from, handed over in a file or drawn, and who is shown which examples when.

Numpy only. Every strategy sees the same batches: only how they are shared out differs.
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
    Net,
    TrainingRequest,
)

from . import digits
from .base import MeasuringError

_BRIGHTEST = 16


@dataclass(frozen=True)
class Examples:
    """Pictures and their `labels`.

    `inputs` are float32 from 0 to 1, 8 x 8 with one channel, where they were handed over in a
    file; rows of bytes where they were drawn.
    """

    inputs: Any
    labels: Any

    def chosen(self, which: Any) -> Examples:
        """Those at the places of `which`, in its order."""
        return Examples(self.inputs[which], self.labels[which])


@dataclass(frozen=True)
class Course:
    """What a training goes over: examples that are shown, and those kept for the accuracy."""

    request: TrainingRequest
    shown: Examples
    unseen: Examples

    @property
    def steps(self) -> int:
        """Whole batches in an epoch."""
        return len(self.shown.labels) // self.request.batch

    def batches(self, epoch: int) -> Iterator[list[Examples]]:
        """The epoch's batches, each as the shares of all ranks: a permutation of its own."""
        generator = np.random.default_rng([self.request.seed, epoch])
        order = generator.permutation(len(self.shown.labels))
        for batch in order[: self.steps * self.request.batch].reshape(self.steps, -1):
            yield [self.shown.chosen(share) for share in batch.reshape(self.request.ranks, -1)]

    def batches_of(self, rank: int) -> Iterator[Examples]:
        """Batches of this rank alone, without end: all examples, in an order of its own."""
        generator = np.random.default_rng([self.request.seed, rank])
        size = self.request.batch
        while True:
            order = generator.permutation(len(self.shown.labels))
            for at in range(self.steps):
                yield self.shown.chosen(order[at * size : (at + 1) * size])


def course(request: TrainingRequest) -> Course:
    """What the net that `request` names learns from.

    Raises MeasuringError UNAVAILABLE for a file that is damaged or too small, and where a batch
    cannot be shared out evenly.
    """
    if request.net is Net.PERCEPTRON:
        shown, unseen = (
            Examples(*digits.draw(count, seed=request.seed + at))
            for at, count in enumerate((request.examples, request.unseen))
        )
        return Course(request, shown, unseen)
    if request.ranks < 1 or request.batch < 1 or request.batch % request.ranks:
        raise _refused(
            f"a batch of {request.batch} cannot be shared out evenly to {request.ranks} ranks"
        )
    found = _read(request.examples_path)
    shown_count = len(found.labels) - request.unseen
    if request.unseen < 1 or shown_count < request.batch:
        raise _refused(
            f"{request.examples_path} has {len(found.labels)} examples: too few for a batch of "
            f"{request.batch} beside {request.unseen} unseen ones"
        )
    return Course(request, found.chosen(slice(shown_count)), found.chosen(slice(shown_count, None)))


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

"""What is trained, on which examples, and what proves that no rank was left out.

Numpy only. Every strategy sees the same batches. Drawn examples are seeded digits, each crossed by
a stroke that belongs to none, so that a net has something to get wrong.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from busbw import files
from busbw.model.training import (
    CNN_BYTES,
    CNN_SHAPES,
    EXAMPLE_BYTES,
    EXAMPLE_CLASSES,
    EXAMPLE_SIDE,
    PERCEPTRON_SHAPES,
    Net,
    TrainingRequest,
)

from .base import unavailable, wrong_result

# A variable whose gradient is exactly -1 on every rank: its value is the number of updates by the
# mean over all ranks, times the rate. A rank that is left out makes it less.
COUNTER = "counter"

# What all variables of the convolutional net take, in float32.
GRADIENT_BYTES = CNN_BYTES + 4

_SHAPES = {Net.CNN: CNN_SHAPES, Net.PERCEPTRON: PERCEPTRON_SHAPES}
_PERCEPTRON_DEVIATION = 0.05

# Rates that are no power of two are rounded; an update without one of a thousand ranks is more.
_ROUNDING = 1e-3

# How far the first update of a variable may be from what it should be, as a share of it: more than
# adding up in another order or with fewer digits makes, less than the share of a rank.
_FIRST_UPDATE = 0.02

_BRIGHTEST = 16

DRAWN_SIDE = 28
_AT_ONCE = 1000

# From and to in a frame of 1 wide and 2 high: top, upper right, lower right, bottom, lower left,
# upper left, middle.
_STROKES = np.array(
    [
        [(0, 0), (1, 0)],
        [(1, 0), (1, 1)],
        [(1, 1), (1, 2)],
        [(0, 2), (1, 2)],
        [(0, 1), (0, 2)],
        [(0, 0), (0, 1)],
        [(0, 1), (1, 1)],
    ],
    dtype=np.float32,
)
_OF_DIGIT = np.array(
    [
        [char == "x" for char in strokes]
        for strokes in (
            "xxxxxx.",
            ".xx....",
            "xx.xx.x",
            "xxxx..x",
            ".xx..xx",
            "x.xx.xx",
            "x.xxxxx",
            "xxx....",
            "xxxxxxx",
            "xxxx.xx",
        )
    ]
)


@dataclass(frozen=True)
class Examples:
    """Pictures and their `labels`.

    `inputs` are float32 from 0 to 1, 8 x 8 with one channel, where they were handed over in a
    file; rows of bytes where they were drawn.
    """

    inputs: Any
    labels: Any

    def chosen(self, which: Any) -> Examples:
        return Examples(self.inputs[which], self.labels[which])


@dataclass(frozen=True)
class Course:
    """The examples of a training: those that are shown, and those kept for the accuracy."""

    request: TrainingRequest
    shown: Examples
    unseen: Examples

    @property
    def steps(self) -> int:
        return len(self.shown.labels) // self.request.batch

    def batches(self, epoch: int) -> Iterator[list[Examples]]:
        generator = np.random.default_rng([self.request.seed, epoch])
        order = generator.permutation(len(self.shown.labels))
        for batch in order[: self.steps * self.request.batch].reshape(self.steps, -1):
            yield [self.shown.chosen(share) for share in batch.reshape(self.request.ranks, -1)]

    def batches_of(self, rank: int) -> Iterator[Examples]:
        """Endless batches of this rank alone: all examples, in the rank's own order."""
        generator = np.random.default_rng([self.request.seed, rank])
        size = self.request.batch
        while True:
            order = generator.permutation(len(self.shown.labels))
            for at in range(self.steps):
                yield self.shown.chosen(order[at * size : (at + 1) * size])


def course(request: TrainingRequest) -> Course:
    """Raises MeasuringError UNAVAILABLE for a bad file, and where a batch is not shared evenly."""
    if request.net is Net.PERCEPTRON:
        shown, unseen = (
            Examples(*drawn(count, seed=request.seed + at))
            for at, count in enumerate((request.examples, request.unseen))
        )
        return Course(request, shown, unseen)
    if request.ranks < 1 or request.batch < 1 or request.batch % request.ranks:
        raise unavailable(
            f"a batch of {request.batch} cannot be shared out evenly to {request.ranks} ranks"
        )
    found = _read(request.examples_path)
    shown_count = len(found.labels) - request.unseen
    if request.unseen < 1 or shown_count < request.batch:
        raise unavailable(
            f"{request.examples_path} has {len(found.labels)} examples: too few for a batch of "
            f"{request.batch} in addition to {request.unseen} unseen ones"
        )
    return Course(request, found.chosen(slice(shown_count)), found.chosen(slice(shown_count, None)))


def _read(path: str) -> Examples:
    try:
        content = files.content(Path(path))
    except files.InputError as error:
        raise unavailable(f"the examples cannot be read: {path}: {error}") from error
    if len(content) % EXAMPLE_BYTES:
        raise unavailable(
            f"{path} is damaged: {len(content)} bytes are no whole number of examples of "
            f"{EXAMPLE_BYTES}"
        )
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, EXAMPLE_BYTES)
    pixels, labels = rows[:, :-1], rows[:, -1]
    wrong = np.flatnonzero((labels >= EXAMPLE_CLASSES) | (pixels > _BRIGHTEST).any(axis=1))
    if len(wrong):
        raise unavailable(
            f"{path} is damaged: example {wrong[0]} has label {labels[wrong[0]]} and pixels up to "
            f"{pixels[wrong[0]].max()}, at most {EXAMPLE_CLASSES - 1} and {_BRIGHTEST} are allowed"
        )
    inputs = pixels.astype(np.float32) / np.float32(_BRIGHTEST)
    return Examples(inputs.reshape(-1, EXAMPLE_SIDE, EXAMPLE_SIDE, 1), labels.astype(np.int32))


def drawn(count: int, *, seed: int) -> tuple[Any, Any]:
    """`count` pictures, rows of 784 bytes, and their labels; the same ones for the same seed."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, EXAMPLE_CLASSES, count, dtype=np.int32)
    parts = [_images(labels[at : at + _AT_ONCE], generator) for at in range(0, count, _AT_ONCE)]
    return np.concatenate(parts), labels


def _images(labels: Any, generator: np.random.Generator) -> Any:
    count = len(labels)
    strokes = np.concatenate([_placed(count, generator), _stray(count, generator)], axis=1)
    inked = np.concatenate([_OF_DIGIT[labels], np.ones((count, 1), dtype=bool)], axis=1)
    thickness = generator.uniform(0.8, 2.0, (count, 1)).astype(np.float32)
    ink = np.zeros((count, DRAWN_SIDE * DRAWN_SIDE), dtype=np.float32)
    for number in range(strokes.shape[1]):
        distance = _distance(strokes[:, number, 0], strokes[:, number, 1])
        dark = np.clip(thickness - distance + 0.5, 0, 1)
        ink = np.where(inked[:, number, None], np.maximum(ink, dark), ink)
    noise = generator.normal(0, 0.15, ink.shape).astype(np.float32)
    return np.round(np.clip(ink + noise, 0, 1) * 255).astype(np.uint8)


def _placed(count: int, generator: np.random.Generator) -> Any:
    """The seven strokes for each picture, in its pixels: (pictures, 7, 2 ends, x and y)."""
    width = generator.uniform(6, 12, (count, 1, 1)).astype(np.float32)
    height = generator.uniform(6, 10, (count, 1, 1)).astype(np.float32)
    slant = generator.uniform(-0.4, 0.4, (count, 1, 1)).astype(np.float32)
    middle = (DRAWN_SIDE / 2 + generator.uniform(-3, 3, (count, 1, 1, 2))).astype(np.float32)
    across, down = (_STROKES[None, ..., 0] - 0.5), (_STROKES[None, ..., 1] - 1)
    bent = generator.normal(0, 0.7, (count, 7, 2, 2)).astype(np.float32)
    return np.stack([across * width - down * height * slant, down * height], -1) + middle + bent


def _stray(count: int, generator: np.random.Generator) -> Any:
    begin = generator.uniform(3, 25, (count, 1, 1, 2)).astype(np.float32)
    way = generator.uniform(-7, 7, (count, 1, 1, 2)).astype(np.float32)
    return np.concatenate([begin, begin + way], axis=2)


def _distance(begin: Any, end: Any) -> Any:
    """Pixels from each pixel of each picture to that picture's stroke."""
    y, x = np.divmod(np.arange(DRAWN_SIDE * DRAWN_SIDE, dtype=np.float32), DRAWN_SIDE)
    way = end - begin
    length2 = np.maximum((way**2).sum(1, keepdims=True), np.float32(1e-6))
    from_x, from_y = x[None] - begin[:, :1], y[None] - begin[:, 1:]
    share = np.clip((from_x * way[:, :1] + from_y * way[:, 1:]) / length2, 0, 1)
    return np.hypot(from_x - share * way[:, :1], from_y - share * way[:, 1:])


def starting_values(request: TrainingRequest) -> dict[str, Any]:
    """By name of variable, in the order in which they are made and handed out to servers."""
    generator = np.random.default_rng(request.seed)
    values = {
        name: np.zeros(shape, dtype=np.float32)
        if name.endswith("biases")
        else generator.normal(0, _deviation(request.net, shape), shape).astype(np.float32)
        for name, shape in _SHAPES[request.net].items()
    }
    return {**values, COUNTER: np.zeros((), dtype=np.float32)}


def _deviation(net: Net, shape: tuple[int, ...]) -> float:
    """Of the convolutional net: a variance of 2 over the inputs of a unit, as suits a ReLU."""
    return math.sqrt(2 / math.prod(shape[:-1])) if net is Net.CNN else _PERCEPTRON_DEVIATION


def digest(values: Mapping[str, Any]) -> str:
    """SHA-256 of the bytes of all variables, in their order."""
    found = hashlib.sha256()
    for value in values.values():
        found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def updates(copies: Mapping[str, Mapping[str, Any]], rate: float) -> int:
    """Raises MeasuringError WRONG_RESULT where a copy lacks a part of an update, or they differ."""
    seen = {name: float(values[COUNTER]) / rate for name, values in copies.items()}
    count = round(next(iter(seen.values())))
    for name, found in seen.items():
        # Not a number is wrong, too.
        if not abs(found - count) <= _ROUNDING:
            raise wrong_result(
                f"the variables of {name} saw {found:.3f} updates, expected {count} as everywhere"
            )
    return count


def check_first(
    copies: Mapping[str, Mapping[str, Any]],
    start: Mapping[str, Any],
    gradients: Mapping[str, Any],
    rate: float,
) -> None:
    """Raises MeasuringError WRONG_RESULT: examples of a rank are missing, or count too much."""
    for whose, values in copies.items():
        for name, gradient in gradients.items():
            expected = rate * gradient
            wrong = np.linalg.norm(start[name] - values[name] - expected)
            share = float(wrong) / max(float(np.linalg.norm(expected)), 1e-30)
            if not share <= _FIRST_UPDATE:
                raise wrong_result(f"the first update of {name} of {whose} is wrong by {share:.1%}")

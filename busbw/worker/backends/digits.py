"""Pictures of digits like those of MNIST, drawn here: nothing is downloaded, all are seeded.

Numpy only. A digit is up to seven strokes, moved, scaled, slanted, thick or thin, and crossed by
a stroke that belongs to none; so that a net has something to learn and something to get wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SIDE = 28
CLASSES = 10
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


def draw(count: int, *, seed: int) -> tuple[Any, Any]:
    """`count` pictures, rows of 784 bytes, and their labels; the same ones for the same seed."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, CLASSES, count, dtype=np.int32)
    parts = [_images(labels[at : at + _AT_ONCE], generator) for at in range(0, count, _AT_ONCE)]
    return np.concatenate(parts), labels


def _images(labels: Any, generator: np.random.Generator) -> Any:
    count = len(labels)
    strokes = np.concatenate([_placed(count, generator), _stray(count, generator)], axis=1)
    drawn = np.concatenate([_OF_DIGIT[labels], np.ones((count, 1), dtype=bool)], axis=1)
    thickness = generator.uniform(0.8, 2.0, (count, 1)).astype(np.float32)
    ink = np.zeros((count, SIDE * SIDE), dtype=np.float32)
    for number in range(strokes.shape[1]):
        distance = _distance(strokes[:, number, 0], strokes[:, number, 1])
        dark = np.clip(thickness - distance + 0.5, 0, 1)
        ink = np.where(drawn[:, number, None], np.maximum(ink, dark), ink)
    noise = generator.normal(0, 0.15, ink.shape).astype(np.float32)
    return np.round(np.clip(ink + noise, 0, 1) * 255).astype(np.uint8)


def _placed(count: int, generator: np.random.Generator) -> Any:
    """The seven strokes for each picture, in its pixels: (pictures, 7, 2 ends, x and y)."""
    width = generator.uniform(6, 12, (count, 1, 1)).astype(np.float32)
    height = generator.uniform(6, 10, (count, 1, 1)).astype(np.float32)
    slant = generator.uniform(-0.4, 0.4, (count, 1, 1)).astype(np.float32)
    middle = (SIDE / 2 + generator.uniform(-3, 3, (count, 1, 1, 2))).astype(np.float32)
    across, down = (_STROKES[None, ..., 0] - 0.5), (_STROKES[None, ..., 1] - 1)
    bent = generator.normal(0, 0.7, (count, 7, 2, 2)).astype(np.float32)
    return np.stack([across * width - down * height * slant, down * height], -1) + middle + bent


def _stray(count: int, generator: np.random.Generator) -> Any:
    """One stroke for each picture that belongs to no digit."""
    begin = generator.uniform(3, 25, (count, 1, 1, 2)).astype(np.float32)
    way = generator.uniform(-7, 7, (count, 1, 1, 2)).astype(np.float32)
    return np.concatenate([begin, begin + way], axis=2)


def _distance(begin: Any, end: Any) -> Any:
    """Pixels from each pixel of each picture to that picture's stroke."""
    y, x = np.divmod(np.arange(SIDE * SIDE, dtype=np.float32), SIDE)
    way = end - begin
    length2 = np.maximum((way**2).sum(1, keepdims=True), np.float32(1e-6))
    from_x, from_y = x[None] - begin[:, :1], y[None] - begin[:, 1:]
    share = np.clip((from_x * way[:, :1] + from_y * way[:, 1:]) / length2, 0, 1)
    return np.hypot(from_x - share * way[:, :1], from_y - share * way[:, 1:])

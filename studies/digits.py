"""The handwritten digits of scikit-learn: 1,797 pictures of 8 x 8 pixels."""

from collections.abc import Iterator
from typing import Any

import numpy as np

_UNSEEN = 297


def load() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return training pictures and labels, then unseen ones; pixels are between 0 and 1."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pictures = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    seen, unseen = order[_UNSEEN:], order[:_UNSEEN]
    return (pictures[seen], labels[seen]), (pictures[unseen], labels[unseen])


def batches(seen: tuple[Any, Any], size: int, *, seed: object) -> Iterator[tuple[Any, Any]]:
    """Yield all whole batches of pictures and labels, in an order that follows from the seed."""
    pictures, labels = seen
    order = np.random.default_rng(seed).permutation(len(labels))  # type: ignore[arg-type]
    for start in range(0, len(labels) - size + 1, size):
        part = order[start : start + size]
        yield pictures[part], labels[part]

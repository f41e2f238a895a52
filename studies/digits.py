"""Load the handwritten digits of scikit-learn: 1,797 pictures of 8 x 8 pixels."""

from collections.abc import Iterator
from typing import Any

import numpy as np

_TEST_PICTURES = 297


def load_pictures() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return pictures and labels for training, and then pictures and labels for testing.

    Pixels are between 0 and 1.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    pictures = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    seen, unseen = order[_TEST_PICTURES:], order[:_TEST_PICTURES]
    return (pictures[seen], labels[seen]), (pictures[unseen], labels[unseen])


def shuffled_batches(
    training_data: tuple[Any, Any], batch_size: int, *, seed: object
) -> Iterator[tuple[Any, Any]]:
    """Yield batches of `batch_size` pictures and labels in random order.

    `training_data` are all pictures and labels, and `seed` decides the order. The last pictures are
    left out if they do not fill a batch.
    """
    pictures, labels = training_data
    order = np.random.default_rng(seed).permutation(len(labels))  # type: ignore[arg-type]
    for start in range(0, len(labels) - batch_size + 1, batch_size):
        indices = order[start : start + batch_size]
        yield pictures[indices], labels[indices]

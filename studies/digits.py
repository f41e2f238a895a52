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
    seen: tuple[Any, Any], size: int, *, seed: object
) -> Iterator[tuple[Any, Any]]:
    """Yield batches of `size` pictures and labels, in a random order that depends on the seed.

    `seen` has all pictures and labels. Pictures that do not fill a batch are left out.
    """
    pictures, labels = seen
    order = np.random.default_rng(seed).permutation(len(labels))  # type: ignore[arg-type]
    for start in range(0, len(labels) - size + 1, size):
        part = order[start : start + size]
        yield pictures[part], labels[part]

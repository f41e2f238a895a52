"""Digits that are drawn: the same for the same seed, all classes, and something to learn."""

from __future__ import annotations

import numpy as np

from busbw.model.training import EXAMPLE_CLASSES
from busbw.worker.backends.training import DRAWN_SIDE, drawn


def test_a_seed_has_its_digits_and_another_seed_has_others() -> None:
    first, again, other = drawn(50, seed=1), drawn(50, seed=1), drawn(50, seed=2)
    assert all(map(np.array_equal, first, again))
    assert not np.array_equal(first[0], other[0])


def test_digits_are_bytes_in_rows_and_all_ten_are_there() -> None:
    images, labels = drawn(1500, seed=0)
    assert images.shape == (1500, DRAWN_SIDE * DRAWN_SIDE)
    assert images.dtype == np.uint8
    assert set(labels.tolist()) == set(range(EXAMPLE_CLASSES))
    assert images.min() == 0
    assert images.max() == 255


def test_digits_of_a_kind_are_more_alike_than_digits_of_two_kinds() -> None:
    """The nearest mean picture names far more than a guess, and far from all."""
    (shown, labels), (unseen, expected) = drawn(3000, seed=0), drawn(1000, seed=1)
    means = np.stack([shown[labels == digit].mean(0) for digit in range(EXAMPLE_CLASSES)])
    distances = ((unseen[:, None] - means[None]) ** 2).sum(2)
    share = (distances.argmin(1) == expected).mean()
    assert 0.25 < share < 0.95

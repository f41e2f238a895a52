"""Synthetic examples that a net can learn: ten pictures, each often and never twice the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from busbw.model.training import EXAMPLE_CLASSES, EXAMPLE_SIDE


def written(path: Path, count: int) -> Path:
    """A file of that number of examples at `path`, the same ones for the same number."""
    generator = np.random.default_rng(count)
    pictures = generator.integers(0, 17, (EXAMPLE_CLASSES, EXAMPLE_SIDE**2))
    labels = generator.integers(0, EXAMPLE_CLASSES, count)
    pixels = pictures[labels] + generator.integers(-4, 5, (count, EXAMPLE_SIDE**2))
    rows = np.concatenate([pixels.clip(0, 16), labels[:, None]], axis=1)
    path.write_bytes(rows.astype(np.uint8).tobytes())
    return path

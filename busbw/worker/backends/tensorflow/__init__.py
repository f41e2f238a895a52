"""TensorFlow, imported only here, once its version is known to be new enough."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device

from ..base import AbstractBackend

OLDEST = "2.16"

# What TensorFlow imports if it is installed, and no worker uses: Keras, which wraps scikit-learn,
# and JAX, which the converter of TFLite reads: 1.7 s of a processor of a start's 4.7 s.
_UNUSED = ("jax", "jaxlib", "keras", "sklearn")


def load(device: Device | None, ranks: int | None, member: ClusterMember | None) -> AbstractBackend:
    """Raises MeasuringError UNAVAILABLE where TensorFlow is too old."""
    _check()
    from .backend import TensorflowBackend

    return TensorflowBackend(device, ranks, member)


def _check() -> None:
    with _left_out(_UNUSED):
        import tensorflow as tf

    from ..framework import check_version

    check_version("tensorflow", tf.__version__, OLDEST)


@contextlib.contextmanager
def _left_out(names: tuple[str, ...]) -> Iterator[None]:
    absent = [name for name in names if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]

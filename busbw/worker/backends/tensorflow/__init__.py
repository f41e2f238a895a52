"""TensorFlow, imported only here, after its version was found to be new enough."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device

from ..base import Backend
from ..framework import check_version

OLDEST = "2.16"

# TensorFlow imports these packages if they are installed, and no worker needs them: Keras, which
# imports scikit-learn, and JAX, for the converter of TFLite. They take 1.7 s of the 4.7 s of CPU
# time of a start.
_UNUSED = ("jax", "jaxlib", "keras", "sklearn")


def load(device: Device | None, ranks: int | None, member: ClusterMember | None) -> Backend:
    """Open the devices. Raises MeasuringError UNAVAILABLE if TensorFlow is too old."""
    with _without_packages(_UNUSED):
        import tensorflow as tf
    check_version("tensorflow", tf.__version__, OLDEST)
    from .backend import TensorflowBackend

    return TensorflowBackend(device, ranks, member)


@contextlib.contextmanager
def _without_packages(names: tuple[str, ...]) -> Iterator[None]:
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]

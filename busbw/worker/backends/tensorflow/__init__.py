"""The back end of TensorFlow, whose modules are imported only after the version was checked."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from busbw.model.machine import GroupMember
from busbw.model.words import DeviceClass

from ..base import Backend
from ..framework import check_version

# The oldest version of TensorFlow that busbw measures.
OLDEST_VERSION = "2.16"

# Packages that TensorFlow imports if they are installed, but that no worker needs: Keras, which
# imports scikit-learn, and JAX for the converter of TFLite. A start takes 4.7 s of CPU time, of
# which these packages take 1.7 s.
_UNNEEDED_PACKAGES = ("jax", "jaxlib", "keras", "sklearn")


def load(device: DeviceClass | None, ranks: int | None, member: GroupMember | None) -> Backend:
    """Import TensorFlow, open its devices, and return the back end.

    `device` is the class of device to measure, None for any class. `ranks` is the number of ranks
    of all processes together, None for the default. `member` is this process and its group, None
    for a single process. Raises MeasuringError UNAVAILABLE if TensorFlow is too old, or if this
    process cannot join its group.
    """
    with _hide_packages(_UNNEEDED_PACKAGES):
        import tensorflow as tf
    check_version("tensorflow", tf.__version__, OLDEST_VERSION)
    from .backend import TensorflowBackend

    return TensorflowBackend(device, ranks, member)


@contextlib.contextmanager
def _hide_packages(names: tuple[str, ...]) -> Iterator[None]:
    """Make imports of the packages in `names` fail inside the `with` block.

    There the packages seem to be missing. Packages that are already imported stay available.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]

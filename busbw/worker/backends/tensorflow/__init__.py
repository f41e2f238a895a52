"""TensorFlow, in these rooms alone; whether it is new enough is asked before all else."""

from __future__ import annotations

from busbw.model import Device, Place

from ..base import AbstractBackend, AbstractTrainer

# Before it, a MirroredStrategy on the CPU was no ring, whatever was asked for.
OLDEST = "2.13"


def load(device: Device | None, ranks: int | None) -> AbstractBackend:
    """Raises MeasuringError UNAVAILABLE where TensorFlow is too old."""
    _check()
    from .backend import TensorflowBackend

    return TensorflowBackend(device, ranks)


def load_trainer(place: Place) -> AbstractTrainer:
    """Raises MeasuringError UNAVAILABLE where TensorFlow is too old."""
    _check()
    from .trainer import TensorflowTrainer

    return TensorflowTrainer(place)


def _check() -> None:
    import tensorflow as tf

    from ..framework import check_version

    check_version("tensorflow", tf.__version__, OLDEST)

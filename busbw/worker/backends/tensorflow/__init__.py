"""TensorFlow, in these rooms alone; whether it is new enough is asked before all else."""

from __future__ import annotations

from busbw.model import Device, Place

from ..base import AbstractBackend, AbstractTrainer


def load(device: Device | None, ranks: int | None) -> AbstractBackend:
    """Raises MeasuringError UNAVAILABLE where TensorFlow is too old."""
    from . import versions

    versions.check()
    from .backend import TensorflowBackend

    return TensorflowBackend(device, ranks)


def load_trainer(place: Place) -> AbstractTrainer:
    """Raises MeasuringError UNAVAILABLE where TensorFlow is too old."""
    from . import versions

    versions.check()
    from .trainer import TensorflowTrainer

    return TensorflowTrainer(place)

"""JAX, imported only here, once its version is known to be new enough."""

from __future__ import annotations

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device

from ..base import AbstractBackend


def load(device: Device | None, ranks: int | None, member: ClusterMember | None) -> AbstractBackend:
    """Raises MeasuringError UNAVAILABLE where JAX is too old."""
    from . import versions

    versions.check()
    from .backend import JaxBackend

    return JaxBackend(device, ranks, member)

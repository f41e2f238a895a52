"""JAX, imported only here, after its version was found to be new enough."""

from __future__ import annotations

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device

from ..base import Backend


def load(device: Device | None, ranks: int | None, member: ClusterMember | None) -> Backend:
    """Open the devices. Raises MeasuringError UNAVAILABLE if JAX is too old."""
    from . import versions

    versions.check()
    from .backend import JaxBackend

    return JaxBackend(device, ranks, member)

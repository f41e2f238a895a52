"""A simulated framework: a script has its devices and times, for tests and demonstrations."""

from __future__ import annotations

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device

from ..base import Backend


def load(device: Device | None, ranks: int | None, member: ClusterMember | None) -> Backend:
    """Open the devices of the script."""
    from .backend import FakeBackend

    return FakeBackend(device, ranks, member)

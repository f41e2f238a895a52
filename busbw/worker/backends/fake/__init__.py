"""No framework: devices and times by a script, for tests and demonstrations."""

from __future__ import annotations

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device

from ..base import AbstractBackend


def load(device: Device | None, ranks: int | None, member: ClusterMember | None) -> AbstractBackend:
    from .backend import FakeBackend

    return FakeBackend(device, ranks, member)

"""A simulated framework for tests and demonstrations. A script has its devices and times."""

from __future__ import annotations

from busbw.model.machine import ClusterMember
from busbw.model.words import Device

from ..base import Backend


def load(device: Device | None, ranks: int | None, member: ClusterMember | None) -> Backend:
    """Open the devices that the script describes, and return the back end.

    `busbw.worker.backends.load` explains the parameters.
    """
    from .backend import FakeBackend

    return FakeBackend(device, ranks, member)

"""The back end of the simulated framework `fake`, whose devices and times are in a script."""

from __future__ import annotations

from busbw.model.machine import GroupMember
from busbw.model.words import DeviceClass

from ..base import Backend


def load(device: DeviceClass | None, ranks: int | None, member: GroupMember | None) -> Backend:
    """Read the script that describes the devices and times, and return the back end.

    `busbw.worker.backends.load` explains the parameters.
    """
    from .backend import FakeBackend

    return FakeBackend(device, ranks, member)

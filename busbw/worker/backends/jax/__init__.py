"""The back end of JAX, whose modules are imported only after JAX's version was checked."""

from __future__ import annotations

from busbw.model.machine import GroupMember
from busbw.model.words import DeviceClass

from ..base import Backend


def load(device: DeviceClass | None, ranks: int | None, member: GroupMember | None) -> Backend:
    """Import JAX, open its devices, and return the back end.

    `device` is the class of device to measure, None for any class. `ranks` is the number of ranks
    of all processes together, None for the default. `member` is this process and its group, None
    for a single process. Raises MeasuringError UNAVAILABLE if JAX is too old, or if this
    process cannot join its group.
    """
    from . import versions

    versions.check_framework_version()
    from .backend import JaxBackend

    return JaxBackend(device, ranks, member)

"""The back ends: the only code that may import a framework, each behind the interface in `base`.

A back end is a folder with the name of its framework. No registry lists the folders. A back end is
imported only when a worker needs it, because a framework may be missing, slow to import, or crash.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from busbw.model.machine import GroupMember
from busbw.model.words import DeviceClass

from .base import Backend


def load(
    framework: str, device: DeviceClass | None, ranks: int | None, member: GroupMember | None = None
) -> Backend:
    """Import a framework, open its devices, and return its back end.

    Args:
        framework: the name of the framework, and of the folder of its back end.
        device: the class of device to measure (CPU, GPU or TPU), None for any class.
        ranks: the number of ranks in all processes together, None for the framework's default.
        member: this process and its group of processes, None for a single process.

    Raises:
        MeasuringError: UNAVAILABLE if the framework is too old, or if a process of the group does
            not join the group.
        ModuleNotFoundError: no folder has the name of the framework, or the framework is not
            installed.

    """
    folder = importlib.import_module(f"{__name__}.{framework}")
    backend: Backend = folder.load(device, ranks, member)
    return backend


def load_backend_module(framework: str, name: str) -> ModuleType | None:
    """Import a module in the folder of a framework's back end, and return the module.

    `framework` is the name of the framework, and `name` the name of the module inside the folder,
    such as ``versions``. Returns None if the back end has no such module.
    """
    if importlib.util.find_spec(f"{__name__}.{framework}.{name}") is None:
        return None
    return importlib.import_module(f"{__name__}.{framework}.{name}")

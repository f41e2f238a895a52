"""The only rooms that may import a framework, each behind the narrow interfaces of `base`.

A back end is a folder with its framework's name, found by being here. It is imported only when it
is needed: a framework may be missing, slow to import, or crash on import.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.model.cluster import ClusterMember
    from busbw.model.words import Device

    from .base import AbstractBackend


def load(
    framework: str, device: Device | None, ranks: int | None, member: ClusterMember | None = None
) -> AbstractBackend:
    """Import a framework, and open its devices.

    Raises MeasuringError UNAVAILABLE for a framework that is too old, or for members that do not
    meet, and ValueError where there is no such back end.
    """
    if importlib.util.find_spec(f"{__name__}.{framework}") is None:
        raise ValueError(f"the back ends offer no {framework!r}")
    folder = importlib.import_module(f"{__name__}.{framework}")
    opened: AbstractBackend = folder.load(device, ranks, member)
    return opened


def part(framework: str, operation: str) -> ModuleType | None:
    """Import what a framework has for an operation; None where it has no such file."""
    if importlib.util.find_spec(f"{__name__}.{framework}.{operation}") is None:
        return None
    return importlib.import_module(f"{__name__}.{framework}.{operation}")

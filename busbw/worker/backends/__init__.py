"""The only packages that may import a framework, each behind the interface of `base`.

A back end is a folder with the name of its framework, and is found because the folder exists. It is
imported only when it is needed: a framework may be missing, slow to import, or crash on import.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.model.cluster import ClusterMember
    from busbw.model.words import Device

    from .base import Backend


def load(
    framework: str, device: Device | None, ranks: int | None, member: ClusterMember | None = None
) -> Backend:
    """Import a framework, and open its devices.

    Raises MeasuringError UNAVAILABLE if the framework is too old or if the members of a group do
    not meet, and ValueError if there is no such back end.
    """
    if importlib.util.find_spec(f"{__name__}.{framework}") is None:
        raise ValueError(f"the back ends offer no {framework!r}")
    folder = importlib.import_module(f"{__name__}.{framework}")
    backend: Backend = folder.load(device, ranks, member)
    return backend


def part(framework: str, operation: str) -> ModuleType | None:
    """Import the file that a framework has for an operation; None if there is no such file."""
    if importlib.util.find_spec(f"{__name__}.{framework}.{operation}") is None:
        return None
    return importlib.import_module(f"{__name__}.{framework}.{operation}")

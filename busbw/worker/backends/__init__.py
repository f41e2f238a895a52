"""The only rooms that may import a framework, each behind the narrow interfaces of `base`.

A back end is a folder with its framework's name, found by being here. It is imported only when it
is needed: a framework may be missing, slow to import, or crash on import.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from busbw.model.cluster import ClusterMember
    from busbw.model.words import Device

    from .base import AbstractBackend, AbstractCompiler


def load(
    framework: str, device: Device | None, ranks: int | None, member: ClusterMember | None = None
) -> AbstractBackend:
    """Raises MeasuringError UNAVAILABLE for a framework too old, or members that do not meet."""
    opened: AbstractBackend = _offered(framework, "load")(device, ranks, member)
    return opened


def load_compiler(framework: str) -> AbstractCompiler:
    compiler: AbstractCompiler = _offered(framework, "load_compiler")()
    return compiler


def _offered(framework: str, name: str) -> Callable[..., Any]:
    """The function `name` of a framework's folder. Raises ValueError where it offers none."""
    there = importlib.util.find_spec(f"{__name__}.{framework}") is not None
    folder = importlib.import_module(f"{__name__}.{framework}") if there else None
    if not hasattr(folder, name):
        raise ValueError(f"the back ends offer no {name} for {framework!r}")
    found: Callable[..., Any] = getattr(folder, name)
    return found

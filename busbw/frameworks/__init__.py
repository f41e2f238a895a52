"""Descriptors of the frameworks, a file each, found by being here; imports no framework."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from busbw.model.workload import Framework


def _load() -> dict[str, Framework]:
    """Load all descriptors by name, scripted frameworks last."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    descriptors = sorted(
        (module.FRAMEWORK for module in modules),
        key=lambda framework: (framework.is_scripted, framework.name),
    )
    return {framework.name: framework for framework in descriptors}


FRAMEWORKS: Mapping[str, Framework] = _load()

# The frameworks that are measured by default.
USUAL = tuple(name for name, framework in FRAMEWORKS.items() if not framework.is_scripted)

"""Descriptors of the frameworks, a file each, found by being here; imports no framework."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from busbw.model.workload import Framework


def _found() -> dict[str, Framework]:
    """By name, scripted ones last."""
    names = (one.name for one in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    found = sorted((one.FRAMEWORK for one in modules), key=lambda one: (one.scripted, one.name))
    return {one.name: one for one in found}


FRAMEWORKS: Mapping[str, Framework] = _found()

# The frameworks that are measured by default.
USUAL = tuple(one.name for one in FRAMEWORKS.values() if not one.scripted)

"""Which frameworks there are, for the parent: a file each, which is found because it lies here.

Imports no framework and asks nobody: names and facts that hold wherever it is installed.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from busbw.model import Framework


def _found() -> dict[str, Framework]:
    """By name, those that are made up behind the others."""
    names = (one.name for one in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    found = sorted((one.FRAMEWORK for one in modules), key=lambda one: (one.scripted, one.name))
    return {one.name: one for one in found}


FRAMEWORKS: Mapping[str, Framework] = _found()

# Those that are measured where nobody names any.
USUAL = tuple(one.name for one in FRAMEWORKS.values() if not one.scripted)

# Those whose programs can be compiled for chips that are not there.
COMPILED = tuple(one.name for one in FRAMEWORKS.values() if one.compiles)

__all__ = ["COMPILED", "FRAMEWORKS", "USUAL", "Framework"]

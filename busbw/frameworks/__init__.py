"""The descriptors of the frameworks, each in a file of this folder.

A descriptor (`busbw.model.case.Framework`) holds the facts about a framework that are known without
importing the framework.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from busbw.model.case import Framework


def _load_descriptors() -> dict[str, Framework]:
    """Return the descriptor of each framework by name, imported from the files of this folder.

    Scripted frameworks, which are measured only if an option names them, come last.
    """
    names = (module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    descriptors = sorted(
        (module.FRAMEWORK for module in modules),
        key=lambda framework: (framework.is_scripted, framework.name),
    )
    return {framework.name: framework for framework in descriptors}


FRAMEWORKS: Mapping[str, Framework] = _load_descriptors()

# The frameworks that a session measures by default, if they are installed.
DEFAULT_FRAMEWORKS = tuple(
    name for name, framework in FRAMEWORKS.items() if not framework.is_scripted
)

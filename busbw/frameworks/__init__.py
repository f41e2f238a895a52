"""The descriptors of the frameworks, each in a file of this folder.

A descriptor (`busbw.model.case.Framework`) holds the facts about a framework that are known without
importing the framework.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from busbw.model.case import Framework

_frameworks: list[Framework] = [
    importlib.import_module(f"{__name__}.{module.name}").FRAMEWORK
    for module in pkgutil.iter_modules(__path__)
]
# Scripted frameworks, which are measured only if an option names them, come last.
_frameworks.sort(key=lambda framework: (framework.is_scripted, framework.name))

# The descriptor of each framework, by its name.
FRAMEWORKS: Mapping[str, Framework] = {framework.name: framework for framework in _frameworks}

# The frameworks that a session measures by default, if they are installed.
DEFAULT_FRAMEWORKS = tuple(
    name for name, framework in FRAMEWORKS.items() if not framework.is_scripted
)

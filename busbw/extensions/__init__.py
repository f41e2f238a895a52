"""Optional features, each in a folder that can be deleted.

The core imports none of them. It calls their functions by name through `hooks`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any


def hooks(name: str) -> list[Callable[..., Any]]:
    """Load the functions that extensions declare under `name`.

    The `__init__` of an extension declares them in a table `HOOKS`, from a name to
    ``"module:function"``. The module is imported only when the hook is needed.
    """
    functions = []
    for extension in pkgutil.iter_modules(__path__):
        table = getattr(importlib.import_module(f"{__name__}.{extension.name}"), "HOOKS", {})
        if name in table:
            module, _, function = table[name].partition(":")
            loaded = importlib.import_module(f"{__name__}.{extension.name}.{module}")
            functions.append(getattr(loaded, function))
    return functions

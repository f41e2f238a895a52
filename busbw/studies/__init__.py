"""Questions that have a page for an answer: a folder each, with its sums, its command, its words.

A study is found by the command line because it lies here, and has `add_to`. It may use every room
but the worker and the other studies; nobody imports it.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def found() -> list[ModuleType]:
    """Every study."""
    return [
        importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__)
    ]

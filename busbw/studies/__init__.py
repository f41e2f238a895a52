"""Studies: each answers one question by a calculation or by a run, and has a command and a page.

The command line finds a study by its being here, as a module or a folder that has `add_to`. A study
uses `study` (the frame) and `curve`, and every room but the worker and other studies; nothing
imports it.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def found() -> list[ModuleType]:
    """Every study."""
    here = [
        importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__)
    ]
    return [one for one in here if hasattr(one, "add_to")]

"""Studies, each a folder: a question, its calculation, its command and a page with the answer.

The command line finds a study by being here and having `add_to`. A study may use every room but the
worker and the other studies; nothing imports it.
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

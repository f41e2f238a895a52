"""Optional features, each in a folder that can be deleted.

The core imports none of them. It calls their functions by name through `hooks`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any


def hooks(name: str, table: str = "HOOKS") -> list[Callable[..., Any]]:
    """Load the functions that extensions declare under `name`.

    The `__init__` of an extension declares them in a `table`, from a name to
    ``"module:function"``. The module is imported only when the function is needed. A worker reads
    the tables WORKER_SERVICES and WORKER_OPERATIONS, the session reads HOOKS.
    """
    functions = []
    for extension, names in _tables(table):
        if name in names:
            module, _, function = names[name].partition(":")
            loaded = import_module(f"{__name__}.{extension}.{module}")
            functions.append(getattr(loaded, function))
    return functions


def commands(name: str = "") -> dict[str, ModuleType]:
    """Load the modules of the commands that extensions add, or that of the command `name` alone.

    The `__init__` of an extension declares its commands in a table `COMMANDS`, from the name of a
    command to a module of the extension.
    """
    return {
        command: import_module(f"{__name__}.{extension}.{module}")
        for extension, table in _tables("COMMANDS")
        for command, module in table.items()
        if name in ("", command)
    }


def _tables(name: str) -> Iterator[tuple[str, dict[str, str]]]:
    for extension in pkgutil.iter_modules(__path__):
        yield extension.name, vars(import_module(f"{__name__}.{extension.name}")).get(name, {})

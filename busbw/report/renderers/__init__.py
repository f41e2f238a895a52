"""The formats of a table: one file each, found in this folder.

A file has a `render` that takes a Table and returns its lines; the format has the file's name. It
decides how a table looks, never what it holds.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping

from ..table import Table, TextLine

Renderer = Callable[[Table], list[TextLine]]


def _found() -> dict[str, Renderer]:
    names = [one.name for one in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}").render for name in names}


RENDERERS: Mapping[str, Renderer] = _found()


def rendered(form: str, *tables: Table) -> list[str]:
    return [line.text for table in tables for line in RENDERERS[form](table)]

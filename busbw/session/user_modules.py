"""Whether the function that --program names is there, found without importing its module.

Only a worker may import it: it can start a framework, or need another interpreter. What a module
defines only when it runs is left to the worker.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from busbw import storage
from busbw.model.words import cut_short

# With these a module can define names that its text does not have.
_DYNAMIC = {"globals", "locals", "vars", "exec", "eval", "setattr", "modules"}
_MOST_NAMED = 5


def check_function(source: str, *, is_local: bool) -> None:
    """Raise ValueError where ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION`` certainly has no function.

    A module that cannot be found is refused only where `is_local`: this interpreter measures.
    """
    place, _, function = source.rpartition(":")
    path = Path(place) if place.endswith(".py") else _file_of(place, is_local=is_local)
    tree = _tree_of(path) if path is not None else None
    names = _names_in(tree) if tree is not None else None
    if tree is None or names is None or function in names:
        return
    functions = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    public = [name for name in functions if not name.startswith("_")]
    there = ", ".join(cut_short(public, _MOST_NAMED, "functions")) or "none"
    raise ValueError(f"{place} defines no {function}; its functions are {there}")


def _file_of(module: str, *, is_local: bool) -> Path | None:
    """Return the file of a module as ``python -m`` finds it; None where it has no source here."""
    search: list[str] | None = [os.getcwd(), *sys.path]
    found: ModuleSpec | None = None
    parts = module.split(".")
    for number, part in enumerate(parts, 1):
        found = PathFinder.find_spec(part, search)
        if found is None:
            if is_local and part not in sys.builtin_module_names:
                raise ValueError(f"there is no module {'.'.join(parts[:number])} here")
            return None
        locations = found.submodule_search_locations
        search = list(locations) if locations is not None else []
    origin = found.origin if found is not None else None
    return Path(origin) if origin and origin.endswith(".py") else None


def _tree_of(path: Path) -> ast.Module | None:
    """Return the syntax of a file; None for a text that this release of Python cannot read."""
    try:
        text = importlib.util.decode_source(storage.read(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (storage.InputError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names_in(tree: ast.Module) -> set[str] | None:
    """Return the names that a module may define; None where its text cannot tell.

    Those that only its functions bind are among them: too many names refuse nothing.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in _DYNAMIC:
                return None
            if isinstance(node.ctx, ast.Store):
                names.add(name)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            if node.name == "*":
                return None
            names.add(node.asname or node.name.partition(".")[0])
    return None if "__getattr__" in names else names

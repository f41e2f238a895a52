"""What a repository's own conftest.py and plugins call as busbw does; read, never imported."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path

import busbw

_PLUGIN = Path(busbw.__file__).parent / "plugin"


def taken(root: Path) -> Iterator[tuple[str, str]]:
    ours = {name for path in _PLUGIN.glob("*.py") for name, _ in _named(path)}
    for path in sorted({*root.rglob("conftest.py"), *root.rglob("*plugin*.py")}):
        hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
        if hidden or "site-packages" in path.parts or path.is_relative_to(_PLUGIN.parent):
            continue
        for name, line in _named(path):
            if name in ours:
                yield f"{path}:{line}", name


def _named(path: Path) -> Iterator[tuple[str, int]]:
    """Options and fixtures that a file defines, and where; none of a file that is no Python."""
    tree = ast.Module([], [])
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if any("fixture" in ast.unparse(one) for one in node.decorator_list):
                yield f"fixture {node.name}", node.lineno
        elif isinstance(node, ast.Call):
            kind = ast.unparse(node.func)
            words = [one.value for one in node.keywords if one.arg in ("dest", "name")]
            words += node.args if kind.endswith("addoption") else ()
            for word in words if kind.endswith(("addoption", "Option")) else ():
                if isinstance(word, ast.Constant):
                    yield "--" + str(word.value).lstrip("-").replace("_", "-"), node.lineno

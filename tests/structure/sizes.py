"""Statements, functions and syntax-tree nodes of Python source; docstrings are not counted."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def size(nodes: Collection[ast.AST]) -> Counter[str]:
    """Count the statements, functions and nodes among all nodes of a module."""
    return Counter(
        statements=sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in nodes),
        functions=sum(isinstance(node, FUNCTIONS) for node in nodes),
        nodes=len(nodes),
    )


def _is_docstring(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)

"""Who may import whom: evidence needs the standard library and busbw; busbw needs no evidence."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _imported(folder: str) -> Iterator[str]:
    """The packages that are imported anywhere below `folder`, other than its own."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                yield node.module.split(".")[0]


def test_evidence_needs_only_the_standard_library_and_busbw() -> None:
    assert set(_imported("evidence")) - set(sys.stdlib_module_names) <= {"busbw", "evidence"}


def test_busbw_needs_no_evidence() -> None:
    assert "evidence" not in set(_imported("busbw"))

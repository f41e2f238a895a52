"""tests/contract/README.md lists 40 guarantees, whose tests exist and see busbw from outside."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "tests/contract/README.md").read_text(encoding="utf-8")
GUARANTEES = re.split(r"^(?=\d+\. )", TEXT, flags=re.MULTILINE)[1:]
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


def test_the_readme_of_contract_tests_has_forty_numbered_guarantees() -> None:
    numbers = [int(guarantee.partition(".")[0]) for guarantee in GUARANTEES]
    assert numbers == list(range(1, 41))


def test_each_guarantee_names_a_test_or_says_that_a_test_is_missing() -> None:
    named = re.compile(r"^ +- (`tests/[\w/]+\.py::\w+`|Not yet: .+)", re.MULTILINE)
    assert [text for text in GUARANTEES if not named.search(text)] == []


def test_each_line_of_the_readme_that_begins_with_a_test_has_the_form_path_and_name() -> None:
    assert TEXT.count("- `tests/") == len(re.findall(r"- `tests/[\w/]+\.py::\w+`\n", TEXT))


def test_each_test_that_a_guarantee_names_exists() -> None:
    missing = [(path, name) for path, name in TESTS if name not in _functions(path)]
    assert missing == []


@functools.cache
def _functions(path: str) -> frozenset[str]:
    """Return the names of the functions in a file, which are none if the file is missing."""
    file = ROOT / path
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return frozenset(re.findall(r"^(?:    )?def (\w+)\(", text, re.MULTILINE))


def test_no_contract_test_imports_busbw() -> None:
    importing = [
        path.name
        for path in sorted((ROOT / "tests/contract").rglob("test_*.py"))
        if any(name.split(".")[0] == "busbw" for name in _imports(path))
    ]
    assert importing == []


def _imports(path: Path) -> Iterator[str]:
    """Yield the name of each module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_each_file_that_a_guarantee_names_exists() -> None:
    names = set(re.findall(r"`((?:tests|docs)/[\w/]+(?:\.py|\.md)?)`", TEXT))
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []

"""`python -m kills` with the fake back end: real sessions, real signals, and the table."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
@pytest.mark.sessions
def test_some_hits_leave_nothing_and_stand_in_the_table() -> None:
    command = [sys.executable, "-m", "kills", "--framework=fake", "--kills=5", "--seed=18"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    title, _, *rows = done.stdout.splitlines()
    assert title.startswith("| layout | hit | times |")
    assert sum(int(row.split(" | ")[2]) for row in rows) == 5


def test_they_need_pytest_and_busbw_and_busbw_needs_none_of_them() -> None:
    found = {name.partition(".")[0] for name in imported("kills")}
    assert found - set(sys.stdlib_module_names) == {"busbw", "pytest"}
    assert not {"kills", "tests"} & {name.partition(".")[0] for name in imported("busbw")}


def imported(folder: str) -> set[str]:
    """The modules that are imported anywhere below `folder`."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module)
    return found

"""`python -m kills` with the fake back end: real sessions, real signals, and the page."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
@pytest.mark.sessions
def test_some_hits_leave_nothing_and_stand_on_the_page() -> None:
    # By this seed two workers, the probe and twice the session; who is stopped takes long to end.
    command = [sys.executable, "-m", "kills", "--framework=fake", "--kills=5", "--seed=18"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# What a kill costs\n")
    rows = [line for line in done.stdout.splitlines() if line[:4] in {f"| {n} " for n in range(9)}]
    assert len(rows) == 5


def test_they_need_pytest_and_busbw_and_the_hosts_of_tests_and_busbw_needs_none_of_them() -> None:
    found = imported("kills")
    assert {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) <= {
        "busbw",
        "pytest",
        "tests",
    }
    of_tests = {name for name in found if name.startswith("tests")}
    assert of_tests and all(name.startswith("tests.hosts") for name in of_tests)
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

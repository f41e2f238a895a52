"""The limits of each package, kept in `limits.json`, and the command that lowers them.

    python -m tests.structure.limits          # lower each limit to the present count
    python -m tests.structure.limits --raise  # also raise the limits that are exceeded

A limit is raised only for code that replaces something or serves a guarantee to users
(`tests/contract/README.md`); the reason belongs in the commit message. The statements of all of
`busbw` and of `tests` are never raised: new code replaces old code. A new extension, which has no
limits yet, may have `_NEW` statements and functions, as its tests may, and counts for no sum.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.structure import language, sizes, sources

_FILE = Path(__file__).with_name("limits.json")
_COUNTED = ("statements", "functions", "banned_names", "vague_names", "fragments", "accepted_is")

# The packages whose statements `--raise` does not raise either.
_NEVER_RAISED = ("busbw", "tests")

# A person reads so much in a quarter of an hour.
_NEW = {"statements": 300, "functions": 60}

Limits = dict[str, dict[str, int]]


def measure(files: Iterable[tuple[str, str]]) -> dict[str, Counter[str]]:
    """Return the counts of each package, given the path and the text of each file."""
    total: dict[str, Counter[str]] = {}
    for path, text in files:
        nodes = list(ast.walk(ast.parse(text)))
        counts = {**sizes.size(nodes), **language.counts(nodes, text)}
        for package in sources.packages(path):
            total.setdefault(package, Counter()).update(counts)
    return total


def read() -> Limits:
    """Read the limits of each package."""
    limits: Limits = json.loads(_FILE.read_text(encoding="utf-8"))
    return limits


def exceeded(measured: dict[str, Counter[str]], limits: Limits) -> list[str]:
    """Describe each count that is above its limit; a package without limits may hold nothing."""
    new = [name for name in measured if name.startswith("extensions/") and name not in limits]
    new_code = sum((measured[name] for name in new), Counter[str]())
    new += [f"tests/{name.removeprefix('extensions/')}" for name in new]
    new_tests = sum(
        (measured.get(name, Counter()) for name in new[len(new) // 2 :]), Counter[str]()
    )
    not_counted = {"busbw": new_code, "extensions": new_code, "tests": new_tests}
    problems = []
    for package, counts in sorted(measured.items()):
        if package.startswith("tests/") and package not in new:
            continue
        allowed = limits.get(package, _NEW if package in new else {})
        count_of = counts - not_counted.get(package, Counter())
        problems += [
            f"{package}: {count_of[name]} {name}, expected at most {allowed.get(name, 0)}"
            for name in _COUNTED
            if count_of[name] > allowed.get(name, 0)
        ]
    return problems


def _write(measured: dict[str, Counter[str]], *, may_raise: bool) -> None:
    old = read() if _FILE.exists() else {}
    lines = []
    for package, counts in sorted(measured.items()):
        if package.startswith("tests/") or (old and package not in old and not may_raise):
            continue
        before = old.get(package, {})
        limits = {name: counts[name] for name in _COUNTED}
        for name in _COUNTED:
            if not may_raise or (package in _NEVER_RAISED and name == "statements"):
                limits[name] = min(before.get(name, 0), counts[name])
        lines.append(f"  {json.dumps(package)}: {json.dumps(limits)}")
    _FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tests.structure.limits", description=__doc__)
    parser.add_argument("--raise", dest="may_raise", action="store_true")
    arguments = parser.parse_args()
    _write(measure(sources.python_files()), may_raise=arguments.may_raise)

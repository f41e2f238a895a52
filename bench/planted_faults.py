"""Plant each fault of a frozen list in a copy of the checkout, and let the quick tests look for it.

The list was drawn at random before code was deleted: a comparison, an operator or a constant is
changed, or a call is left out. It stays as it is, so that two states of the tests can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .processes import BenchError

_ROOT = Path(__file__).parents[1]
_FAULTS = Path(__file__).parent / "data" / "planted_faults.json"
_QUICK = "not framework and not sessions and not workers and not slow and not exhaustive"
# A test that a fault makes wait for ever has found it.
_MOST_S = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--package", help="plant the faults of this package alone, such as judge")
    parser.set_defaults(lines=lines)


def lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table by package as Markdown, and the numbers of the faults that no test found."""
    faults = json.loads(_FAULTS.read_text(encoding="utf-8"))
    outcomes: dict[str, Counter[str]] = {}
    missed = []
    with tempfile.TemporaryDirectory(prefix="busbw-faults.") as folder:
        checkout = Path(folder) / "checkout"
        shutil.copytree(_ROOT, checkout, ignore=shutil.ignore_patterns(".git", ".tox", "*cache*"))
        for fault in faults:
            package = fault["package"]
            if options.package in (None, package):
                if package not in outcomes and _fails(checkout, _tests(checkout, package)):
                    # Each fault would seem to be found.
                    raise BenchError(f"the quick tests of {package} fail without a fault, too")
                outcome = _outcome(checkout, fault)
                outcomes.setdefault(package, Counter())[outcome] += 1
                missed += [str(fault["number"])] if outcome == "missed" else []
    if not outcomes:
        packages = ", ".join(dict.fromkeys(fault["package"] for fault in faults))
        raise BenchError(f"--package: expected one of {packages}, got {options.package!r}")
    yield from ("| package | found | missed | no longer there |", "|---|---|---|---|")
    for package, counts in outcomes.items():
        yield f"| {package} | {counts['found']} | {counts['missed']} | {counts['gone']} |"
    yield from ("", f"Missed: {', '.join(missed) or 'none'}.")


def _outcome(checkout: Path, fault: Mapping[str, str]) -> str:
    path = checkout / fault["path"]
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text.count(fault["before"]) != 1:
        return "gone"
    path.write_text(text.replace(fault["before"], fault["after"]), encoding="utf-8")
    try:
        return "found" if _fails(checkout, _tests(checkout, fault["package"])) else "missed"
    finally:
        path.write_text(text, encoding="utf-8")


def _tests(checkout: Path, package: str) -> Sequence[str]:
    """Return the unit tests of a package; those of busbw's own modules lie in no folder."""
    unit = checkout / "tests" / "unit"
    paths = [unit / package] if package != "files" else sorted(unit.glob("test_*.py"))
    return [str(path) for path in paths if path.exists()]


def _fails(checkout: Path, tests: Sequence[str]) -> bool:
    if not tests:
        # pytest would run all tests there are.
        return False
    command = [sys.executable, "-m", "pytest", *tests, "-x", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "BUSBW_FUZZ": "20"}
    try:
        ran = subprocess.run(
            [*command, "-m", _QUICK],
            cwd=checkout,
            env=environment,
            capture_output=True,
            check=False,
            timeout=_MOST_S,
        )
    except subprocess.TimeoutExpired:
        return True
    # 5: no test was selected.
    return ran.returncode not in (0, 5)

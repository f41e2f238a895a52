"""A collective and a framework are added to the package without a change of its code.

Each is added to a copy of the package and measured there, in real sessions.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from busbw import storage
from tests.helpers.frameworks import TIMEOUT_S, needs

# Each copies the package and runs sessions with the copy.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
NEW = Path(__file__).with_name("seams")


# A session in here must not take itself for a part of the session that runs this test.
_OF_OUTSIDE = ("CI", "BUSBW_FAKE", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")


def _copied(folder: Path, new: str) -> None:
    """Copy the package, and add the files of ``seams/<new>``, or append them to present files."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("busbw", "perf"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    for source in (NEW / new).rglob("*.txt"):
        target = folder / "busbw" / source.relative_to(NEW / new).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a") as file:
            file.write(source.read_text())


def _pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a copy."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if name not in _OF_OUTSIDE},
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            storage.MACHINE_VARIABLE: str(folder),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


DOUBLE = ("--collectives=double_permute",)
ON_FOUR = ("--device=cpu", "--launches=1", "--ranks=4", "--frameworks=fake,jax")
COMPILED = ("--topology=v5e:2x4", "--compile-cache=none", "--frameworks=fake")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("new", "options", "frameworks"),
    [
        pytest.param("collective", (*ON_FOUR, *DOUBLE), ["fake", "jax"], marks=needs("jax")),
        pytest.param(
            "rooted", (*ON_FOUR, "--collectives=broadcast"), ["fake", "jax"], marks=needs("jax")
        ),
        ("collective", (*COMPILED, *DOUBLE), ["fake"]),
        ("framework", ("--device=cpu", "--ranks=2", "--frameworks=numpy"), ["numpy"]),
    ],
)
def test_a_collective_or_a_framework_can_be_added_without_a_change_of_the_present_code(
    tmp_path: Path, new: str, options: tuple[str, ...], frameworks: list[str]
) -> None:
    _copied(tmp_path, new)
    results = tmp_path / "results.json"
    ran = _pytest(tmp_path, "perf", "--payloads=64K", f"--results={results}", *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    cases = json.loads(results.read_text())["cases"]
    assert [case["case"]["framework"] for case in cases] == frameworks
    assert {case["outcome"] for case in cases} == {"NO_BASELINE"}


@pytest.mark.exhaustive
def test_a_new_collective_fails_tests_until_its_file_of_expected_facts_exists(
    tmp_path: Path,
) -> None:
    _copied(tmp_path, "rooted")
    tests, others = tmp_path / "tests", shutil.ignore_patterns("conftest.py", "data", "contract")
    shutil.copytree(ROOT / "tests", tests, ignore=others)
    options = ("tests/unit/collectives", "-q", "-o", "markers=exhaustive")
    name = "test_every_collective_is_registered_by_its_name_and_has_a_file_of_expected_facts"
    assert name in _pytest(tmp_path, *options).stdout
    shutil.copy(NEW / "known" / "broadcast.py.txt", tests / "unit/collectives/known/broadcast.py")
    assert _pytest(tmp_path, *options).returncode == 0

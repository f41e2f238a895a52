"""A collective and a framework are files that are added to the package, without an edit.

Each is added to a copy of the package and measured there, in real sessions.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw import storage
from tests.helpers.frameworks import TIMEOUT_S, needs

# Each copies the package and runs sessions with the copy.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
NEW = Path(__file__).with_name("seams")


@dataclass(frozen=True)
class Copy:
    """A copy of the package, with the promises beside it, and what is new in it."""

    path: Path
    added: tuple[str, ...]
    before: dict[str, str]

    def untouched(self) -> bool:
        """Return whether no file but the added ones differs."""
        now = _digests(self.path / "busbw")
        others = {name: digest for name, digest in now.items() if name not in self.added}
        return others == self.before

    def outcomes(self, *options: str, exit_codes: tuple[int, ...] = (0,)) -> dict[str, str]:
        """Run a session, and return its outcomes by framework."""
        results = self.path / "results.json"
        ran = _pytest(self.path, "perf", "--payloads=64K", f"--results={results}", *options)
        assert ran.returncode in exit_codes, ran.stdout + ran.stderr
        cases: list[dict[str, Any]] = json.loads(results.read_text())["cases"]
        return {case["case"]["framework"]: case["outcome"] for case in cases}


# A session in here must not take itself for a part of the session that runs this test.
_OF_OUTSIDE = ("CI", "BUSBW_FAKE", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")


def _digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.py")
    }


def _copied(folder: Path, new: str) -> Copy:
    """Copy the package, and add the files of ``seams/<new>``, which it does not have."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("busbw", "perf"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    before = _digests(folder / "busbw")
    added = tuple(
        path.relative_to(NEW / new).as_posix().removesuffix(".txt")
        for path in sorted((NEW / new).rglob("*.txt"))
    )
    for name in added:
        assert name not in before
        (folder / "busbw" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(NEW / new / f"{name}.txt", folder / "busbw" / name)
    return Copy(folder, added, before)


MEASURED = ("--device=cpu", "--launches=1")


@pytest.mark.exhaustive
@needs("jax")
def test_a_collective_is_one_file_and_one_lowering(tmp_path: Path) -> None:
    copy = _copied(tmp_path, "collective")
    assert copy.added == (
        "collectives/double_permute.py",
        "worker/backends/jax/lowerings/double_permute.py",
    )
    arguments = ("--ranks=4", "--frameworks=fake,jax", "--collectives=double_permute")
    assert copy.outcomes(*MEASURED, *arguments) == {"fake": "NO_BASELINE", "jax": "NO_BASELINE"}
    assert copy.untouched()


@needs("jax")
@pytest.mark.exhaustive
def test_a_rooted_collective_is_two_files_and_passes_the_tests_of_all_collectives(
    tmp_path: Path,
) -> None:
    copy = _copied(tmp_path, "rooted")
    arguments = (*MEASURED, "--ranks=4", "--frameworks=fake,jax", "--collectives=broadcast")
    assert copy.outcomes(*arguments) == {"fake": "NO_BASELINE", "jax": "NO_BASELINE"}
    assert copy.untouched()
    tests, others = tmp_path / "tests", shutil.ignore_patterns("conftest.py", "data", "contract")
    shutil.copytree(ROOT / "tests", tests, ignore=others)
    options = ("tests/unit/collectives", "-q", "-o", "markers=exhaustive")
    name = "test_every_collective_is_found_by_its_own_name_and_known_from_elsewhere"
    assert name in _pytest(tmp_path, *options).stdout
    shutil.copy(NEW / "known" / "broadcast.py.txt", tests / "unit/collectives/known/broadcast.py")
    assert _pytest(tmp_path, *options).returncode == 0


def _pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a copy."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if name not in _OF_OUTSIDE},
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            storage.MACHINE: str(folder),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.exhaustive
def test_a_new_collective_is_compiled_and_proved_by_the_fake(tmp_path: Path) -> None:
    copy = _copied(tmp_path, "collective")
    arguments = ("--topology=v5e:2x4", "--compile-cache=none", "--collectives=double_permute")
    assert copy.outcomes(*arguments, "--frameworks=fake") == {"fake": "NO_BASELINE"}
    assert copy.untouched()


@pytest.mark.exhaustive
def test_a_framework_is_a_descriptor_and_a_folder_and_is_judged(tmp_path: Path) -> None:
    copy = _copied(tmp_path, "framework")
    assert copy.added == ("frameworks/numpy.py", "worker/backends/numpy/__init__.py")
    arguments = (*MEASURED, "--ranks=2", "--frameworks=numpy")
    assert copy.outcomes(*arguments, "--update-baselines") == {"numpy": "NO_BASELINE"}
    # The machine may have been slower in either session: held against each other they are.
    judged = copy.outcomes(*arguments, exit_codes=(0, 1))
    assert judged["numpy"] in ("PASS", "IMPROVED", "REGRESSED", "NOISY")
    assert copy.untouched()
